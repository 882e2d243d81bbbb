package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// constant finds named texts in Go: the name, the type if there is one, the text.
	constant = regexp.MustCompile(`(?m)^\s*(?:const )?(\w+)\s+(?:(?:\w+\.)?(\w+)\s+)?= "([A-Z]\w+)"`)
	// quoted finds the words in the second column of a table.
	quoted = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// reasonTypes are the types of which every value is the reason of a condition, but for
// those that only tell other packages why.
func reasonTypes() []string { return []string{"Phase", "Obstacle", "Reason"} }

func untold() []string { return []string{"SecretLost"} }

// reasons are all reasons of conditions that the code knows.
func reasons(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, folder := range []string{"access/binding", "kafka/authorities", "kafka/controller", "kafka/model", "authority", "rotation", "podset", "trust", "user/model"} {
		for path, text := range files(t, filepath.Join(root, "internal", folder), ".go") {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, match := range constant.FindAllStringSubmatch(text, -1) {
				if strings.HasPrefix(strings.ToLower(match[1]), "reason") || slices.Contains(reasonTypes(), match[2]) {
					found = append(found, match[3])
				}
			}
		}
	}
	slices.Sort(found)
	found = slices.DeleteFunc(found, func(reason string) bool { return slices.Contains(untold(), reason) })
	return slices.Compact(found)
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryReasonOfAConditionIsExplained(t *testing.T) {
	t.Parallel()
	known := reasons(t)
	if len(known) < 50 {
		t.Fatalf("only %d reasons were found in the code: %v", len(known), known)
	}
	for _, name := range []string{"conditions.md", "troubleshooting.md"} {
		text := page(t, name)
		for _, reason := range known {
			if !strings.Contains(text, "`"+reason+"`") {
				t.Errorf("docs/%s does not explain the reason %s", name, reason)
			}
		}
	}
}

// causes finds the reasons and causes of etcd in Go, whose types are called so.
var causes = regexp.MustCompile(`(?m)^\s*\w+\s+(?:Reason|Cause|BackupFailure|RestoreFailure)\s+= "([A-Z]\w+)"`)

func TestEveryReasonOfAnEtcdClusterIsExplained(t *testing.T) {
	t.Parallel()
	// A request that is held for one of these is reported nowhere: it passes by itself, or something else reports it.
	silent := []string{"PodTerminating", "PodHasNoAddress", "CANotReady", "CannotIssue", "NoRequest", "AttestationNotEnforced"}
	text, found := page(t, "etcd.md")+page(t, "etcd-pki.md")+page(t, "etcd-backup.md"), 0
	for _, folder := range []string{"etcd/model", "etcd/membership", "etcd/enroll", "etcd/attestation", "etcd/agent/contract"} {
		for _, code := range files(t, filepath.Join(root, "internal", folder), ".go") {
			for _, match := range causes.FindAllStringSubmatch(code, -1) {
				found++
				if !slices.Contains(silent, match[1]) && !strings.Contains(text, "`"+match[1]+"`") {
					t.Errorf("none of docs/etcd.md, docs/etcd-pki.md and docs/etcd-backup.md explains %s", match[1])
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d reasons were found in the code", found)
	}
}

func TestTroubleshootingKnowsNoReasonThatDoesNotExist(t *testing.T) {
	t.Parallel()
	known := reasons(t)
	for line := range strings.Lines(page(t, "troubleshooting.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if !slices.Contains(known, match[1]) {
				t.Errorf("docs/troubleshooting.md explains %s, which is no reason of a condition", match[1])
			}
		}
	}
}

// metric finds the names of metrics, in Go where they are quoted and in prose.
var metric = regexp.MustCompile(`\b(?:keyturn|strimzi)_[a-z_]+[a-z]\b`)

func TestThePagesNameTheMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{} // and whether it is told of by other than a test
	for path, text := range files(t, filepath.Join(root, "internal"), ".go") {
		for _, name := range metric.FindAllString(text, -1) {
			known[name] = known[name] || !strings.HasSuffix(path, "_test.go")
		}
	}
	all := page(t, "conditions.md")
	for name, told := range known {
		if told && !strings.Contains(all, "`"+name) {
			t.Errorf("docs/conditions.md does not explain the metric %s", name)
		}
	}
	for _, name := range metric.FindAllString(all+page(t, "monitoring.md"), -1) {
		if _, exists := known[name]; !exists {
			t.Errorf("a page names the metric %s, which does not exist", name)
		}
	}
}
