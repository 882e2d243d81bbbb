package prose

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The command of docs/backup.md, as somebody copies it, between a kubectl and a gpg that only look like them.
func TestABackupIsThereWhenItHoldsTheFourSecretsAndOnlyThen(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kubectl string
		gpg     string
		want    bool
	}{
		"four Secrets":         {kubectl: secrets("a", "b", "c", "d"), gpg: "cat", want: true},
		"kubectl fails":        {kubectl: "exit 1", gpg: "cat"},
		"a Secret is missing":  {kubectl: secrets("a", "b", "c") + "\nexit 1", gpg: "cat"},
		"three Secrets appear": {kubectl: secrets("a", "b", "c"), gpg: "cat"},
		"gpg fails":            {kubectl: secrets("a", "b", "c", "d"), gpg: "cat; exit 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			const last = "my-cluster-cas-2020-01-01T00-00-00Z.json.gpg"
			write(t, filepath.Join(folder, last), "the last good one")
			write(t, filepath.Join(folder, "my-cluster-cas.json.gpg"), "one of an earlier form")
			err := backUp(t, folder, test.kubectl, test.gpg)
			if (err == nil) != test.want {
				t.Errorf("the command ends with %v, want success: %t", err, test.want)
			}
			kept := names(t, folder, "my-cluster-cas*.json.gpg")
			if made := len(kept) - 2; (made == 1) != test.want || made > 1 {
				t.Errorf("files after the command: %v, want a new one: %t", kept, test.want)
			}
			for _, file := range kept {
				if content, err := os.ReadFile(filepath.Join(folder, file)); err != nil || len(content) == 0 {
					t.Errorf("%s is empty: %v", file, err)
				}
			}
		})
	}
}

func TestABackupHoldsNothingOfTheObjectsThatWere(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := backUp(t, folder, secrets("a", "b", "c", "d"), "cat"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(folder, names(t, folder, "my-cluster-cas*.json.gpg")[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"ownerReferences", "uid", "resourceVersion", "strimzi.io/force-renew"} {
		if strings.Contains(string(content), gone) {
			t.Errorf("the backup holds %s", gone)
		}
	}
	for _, kept := range []string{"strimzi.io/cluster", "strimzi.io/ca-cert-generation", "Y2VydGlmaWNhdGU="} {
		if !strings.Contains(string(content), kept) {
			t.Errorf("the backup does not hold %s", kept)
		}
	}
}

// secrets is a kubectl that shows the Secrets of the names.
func secrets(names ...string) string {
	items := make([]string, 0, len(names))
	for _, name := range names {
		items = append(items, `{"kind":"Secret","metadata":{"name":"`+name+`","uid":"1","resourceVersion":"2","ownerReferences":[{"name":"my-cluster"}],`+
			`"labels":{"strimzi.io/cluster":"my-cluster"},"annotations":{"strimzi.io/ca-cert-generation":"0","strimzi.io/force-renew":"true"}},"data":{"ca.crt":"Y2VydGlmaWNhdGU="}}`)
	}
	return `echo '{"kind":"List","metadata":{"resourceVersion":""},"items":[` + strings.Join(items, ",") + `]}'`
}

// backUp runs the page's first block of bash in the folder.
func backUp(t *testing.T, folder, kubectl, gpg string) error {
	t.Helper()
	for _, program := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed here; make needs installs it", program)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```(?:bash)?\n(.*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatal("docs/backup.md has no command")
	}
	programs := t.TempDir()
	for name, script := range map[string]string{"kubectl": kubectl, "gpg": gpg} {
		write(t, filepath.Join(programs, name), "#!/bin/sh\n"+script+"\n")
	}
	command := exec.CommandContext(t.Context(), "bash", "-c", block[1])
	command.Dir = folder
	command.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	return command.Run()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, folder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}
