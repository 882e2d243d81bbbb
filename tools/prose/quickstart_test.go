package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The commands of README's quickstart are those of the page, which a scenario types, in the same order.
func TestTheReadmeHasTheCommandsOfTheQuickstart(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)## Quickstart\n.*?```\n(.*?)```").FindSubmatch(readme)
	if shown == nil {
		t.Fatal("README.md has no commands below Quickstart")
	}
	rest := strings.Split(string(page), "\n")
	for line := range strings.Lines(string(shown[1])) {
		line = strings.TrimSuffix(line, "\n")
		at := slices.Index(rest, line)
		if at < 0 {
			t.Errorf("docs/quickstart.md does not have the line %q there", line)
			continue
		}
		rest = rest[at+1:]
	}
}
