package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestOperatorsDrawNoPictures(t *testing.T) {
	t.Parallel()
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(listed))
	if len(packages) < 100 {
		t.Fatalf("go list names %d packages, want those of the operators", len(packages))
	}
	for _, imported := range packages {
		if strings.HasPrefix(imported, "golang.org/x/image/") || imported == "image" {
			t.Errorf("the operators import %s, which draws for the plugin", imported)
		}
	}
}
