package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheWalkNamesFunctionsThatThereAre compares each row of a table of docs/development.md that has a package and functions.
func TestTheWalkNamesFunctionsThatThereAre(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "development.md"))
	if err != nil {
		t.Fatal(err)
	}
	row, name, rows := regexp.MustCompile("(?m)^\\| `(internal/[a-z/]+)` \\| (`[A-Za-z]+`(?:, `[A-Za-z]+`)*) \\|"), regexp.MustCompile("`([A-Za-z]+)`"), 0
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		rows++
		source := sourceOf(t, found[1])
		for _, function := range name.FindAllStringSubmatch(found[2], -1) {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + function[1] + `\(`).MatchString(source) {
				t.Errorf("docs/development.md names function %s of %s, which there is not", function[1], found[1])
			}
		}
	}
	const fewest = 20
	if rows < fewest {
		t.Errorf("the page has %d rows with a package and functions, want %d or more", rows, fewest)
	}
}

// sourceOf is the text of all files of a package but its tests.
func sourceOf(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	return source.String()
}
