package prose

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page has a row for each module that go.mod requires directly, and none for another.
func TestEachDirectModuleHasItsReason(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	command.Dir = root
	answer, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Require []struct {
			Path     string `json:"Path"`
			Indirect bool   `json:"Indirect"`
		} `json:"Require"`
	}
	if err := json.Unmarshal(answer, &file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "decisions", "0005-direct-dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	direct, listed := map[string]bool{}, modulesOf(string(page))
	for _, module := range file.Require {
		if direct[module.Path] = !module.Indirect; direct[module.Path] && !listed[module.Path] {
			t.Errorf("%s has no row", module.Path)
		}
	}
	for module := range listed {
		if !direct[module] && !strings.HasPrefix(module, "k8s.io/client-go/") {
			t.Errorf("the row of %s is about no direct module", module)
		}
	}
}

// modulesOf are those in the first column of a table.
func modulesOf(page string) map[string]bool {
	modules := map[string]bool{}
	name := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, found := range name.FindAllStringSubmatch(cells[1], -1) {
				modules[found[1]] = true
			}
		}
	}
	return modules
}
