package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	chapter  = regexp.MustCompile(`(?m)^## (.+)$`)
	commands = regexp.MustCompile("(?s)\n```sh\n(.*?\n)```")
)

// Chapter is a part of a page with a heading of the second level.
type Chapter struct {
	Heading string
	// Commands are the blocks that the reader types, one after the other.
	Commands []string
}

// Chapters reads a page of docs. Chapters without commands are left out.
func (k *Kubernetes) Chapters(page string) ([]Chapter, error) {
	text, err := os.ReadFile(filepath.Join(k.Root, "docs", page))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	var found []Chapter
	headings := chapter.FindAllSubmatchIndex(text, -1)
	for i, at := range headings {
		end := len(text)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		next := Chapter{Heading: string(text[at[2]:at[3]])}
		for _, block := range commands.FindAllSubmatch(text[at[1]:end], -1) {
			next.Commands = append(next.Commands, string(block[1]))
		}
		if len(next.Commands) > 0 {
			found = append(found, next)
		}
	}
	return found, nil
}

// Typed are all commands of the chapter as one script.
func (c Chapter) Typed() string { return strings.Join(c.Commands, "") }
