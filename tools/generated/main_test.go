package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	git := exec.Command("git", "init", "-q", root)
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	for name, content := range map[string]string{"a.yaml": "a", "b.yaml": "b", ".gitignore": "/out"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRunNamesEveryFileThatGenerationTouched(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		generate string
		changed  []string
	}{
		"nothing changed":                       {generate: "printf a >a.yaml"},
		"an ignored file is nobody's business":  {generate: "printf x >out"},
		"a file that was not current":           {generate: "printf x >a.yaml", changed: []string{"a.yaml"}},
		"a file that was missing":               {generate: "printf x >c.yaml", changed: []string{"c.yaml"}},
		"a file that is not generated any more": {generate: "rm b.yaml", changed: []string{"b.yaml"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(repository(t), []string{"sh", "-c", tt.generate})
			if len(tt.changed) == 0 {
				if err != nil {
					t.Fatalf("run: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("run found nothing, want %v", tt.changed)
			}
			_, list, _ := strings.Cut(err.Error(), "\n")
			named := strings.Fields(list)
			if !slices.Equal(named, tt.changed) {
				t.Errorf("run named %v, want %v", named, tt.changed)
			}
		})
	}
}

func TestRunFailsWhenTheCommandFails(t *testing.T) {
	t.Parallel()
	if err := run(repository(t), []string{"false"}); err == nil {
		t.Error("run reported success")
	}
}
