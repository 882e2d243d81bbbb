package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// helmCommand finds the commands of a page that use the chart, in all their lines.
var helmCommand = regexp.MustCompile(`(?m)^helm (install|template|upgrade) (?:.*\\\n)*.*$`)

// Helm keeps a tag or digest that was given at the installation, and with it the version of the operator.
func TestTheDocumentedCommandsRunTheImageOfTheChart(t *testing.T) {
	t.Parallel()
	page := read(t, "..", "docs", "install.md")
	settings := []*regexp.Regexp{regexp.MustCompile(`image\.tag=(\S*)`), regexp.MustCompile(`image\.digest=(\S*)`)}
	seen := map[string]bool{}
	for _, match := range helmCommand.FindAllStringSubmatch(page, -1) {
		command, verb := match[0], match[1]
		seen[verb] = true
		for _, setting := range settings {
			given := setting.FindStringSubmatch(command)
			switch {
			case verb == "upgrade" && len(given) == 0:
				t.Errorf("a former %s is kept by %s", setting, command)
			case len(given) > 1 && given[1] != "":
				t.Errorf("%s is fixed by %s", setting, command)
			}
		}
	}
	for _, verb := range []string{"install", "template", "upgrade"} {
		if !seen[verb] {
			t.Errorf("docs/install.md has no command helm %s", verb)
		}
	}
}

// An account with rights in namespaces alone cannot install with every value.
func TestThePageNamesEachClusterRoleThatListingNamespacesDoesNotRemove(t *testing.T) {
	t.Parallel()
	page := read(t, "..", "docs", "install.md")
	files, err := filepath.Glob(filepath.Join("..", "config", "install", "keyturn*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	ofWatchedNamespaces := []string{"keyturn", "keyturn-cert-manager", "keyturn-access-operator", "keyturn-etcd-operator"}
	for _, file := range files {
		for _, role := range all[*rbacv1.ClusterRole](rendered(t, filepath.Base(file))) {
			if slices.Contains(ofWatchedNamespaces, role.Name) {
				continue
			}
			name := strings.TrimSuffix(strings.TrimPrefix(role.Name, "keyturn"), "-keyturn")
			if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+name+"-<namespace>`") {
				t.Errorf("docs/install.md does not name ClusterRole %s of %s", role.Name, file)
			}
		}
	}
}

func TestTheNotesNameTheImageThatRuns(t *testing.T) {
	t.Parallel()
	if notes := read(t, "keyturn", "templates", "NOTES.txt"); !strings.Contains(notes, `{{ include "keyturn.image" . }}`) {
		t.Errorf("the notes do not name the operator's image:\n%s", notes)
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
