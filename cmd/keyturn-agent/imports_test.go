package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// heavy are modules that operators need and that every pod would pay for.
func heavy() []string {
	return []string{"k8s.io/client-go", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime"}
}

func TestAgentImportsNoClientOfKubernetes(t *testing.T) {
	t.Parallel()
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(listed))
	if len(packages) < 100 {
		t.Fatalf("go list names %d packages, want those of the agent", len(packages))
	}
	for _, imported := range packages {
		for _, module := range heavy() {
			if imported == module || strings.HasPrefix(imported, module+"/") {
				t.Errorf("the agent imports %s; go mod why shows the way", imported)
			}
		}
	}
}
