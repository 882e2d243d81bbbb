// Package prose holds the documentation to what exists: every file and heading a page links to, every test the scenarios name.
package prose

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	// anchored is a link to a heading, of its own page where it names none.
	anchored = regexp.MustCompile(`\]\(([^)#\s]*)#([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	block    = regexp.MustCompile("(?s)```.*?```")
	// unslugged is what an anchor leaves out of its heading.
	unslugged = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	// testName finds tests and end-to-end scenarios in prose, declaration both in the source.
	testName    = regexp.MustCompile("`((?:Test|Benchmark)[A-Za-z0-9_]+|[a-z]+/[a-z0-9-]+)`")
	declaration = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)[A-Za-z0-9_]+)\(|^\s*\{name: "([a-z]+/[a-z0-9-]+)",`)
)

// files returns the contents of all files below a folder with the given ending, by path.
func files(t *testing.T, folder, ending string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "out" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ending) {
			return nil
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for page, text := range files(t, root, ".md") {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", strings.TrimPrefix(page, root+"/"), target)
			}
		}
	}
}

func TestAnchorsLeadToHeadings(t *testing.T) {
	t.Parallel()
	pages := files(t, root, ".md")
	checked := 0
	for page, text := range pages {
		for _, match := range anchored.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			target, anchor := page, match[2]
			if strings.Contains(match[1], "://") {
				continue
			}
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			checked++
			if !anchors(pages[target])[anchor] {
				t.Errorf("%s links to %s#%s, and there is no such heading", strings.TrimPrefix(page, root+"/"), match[1], anchor)
			}
		}
	}
	if checked == 0 {
		t.Error("no page links to a heading")
	}
}

// anchors are those of the headings of a page, as GitHub makes them. A heading that repeats
// an earlier one gets a number.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(page, ""), -1) {
		slug := strings.ReplaceAll(unslugged.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		anchor := slug
		for i := 1; found[anchor]; i++ {
			anchor = fmt.Sprintf("%s-%d", slug, i)
		}
		found[anchor] = true
	}
	return found
}

func TestTheListOfScenariosNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	for _, text := range files(t, root, "_test.go") {
		for _, match := range declaration.FindAllStringSubmatch(text, -1) {
			declared[match[1]+match[2]] = true
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllStringSubmatch(string(page), -1)
	if len(named) == 0 {
		t.Fatal("docs/scenarios.md names no test")
	}
	for _, match := range named {
		if !declared[match[1]] {
			t.Errorf("docs/scenarios.md names %s, which does not exist", match[1])
		}
	}
}
