package model

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestThePageAboutKafkaNamesWhatIsDroppedAndWhatIsTaken(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Configuration")
	section, _, _ = strings.Cut(section, "\n## ")
	dropped, taken, found := strings.Cut(section, "These are taken nevertheless")
	if !found {
		t.Fatal("docs/kafka.md does not say which properties are taken")
	}
	for where, names := range map[string][]string{dropped: forbiddenPrefixes(), taken: allowedProperties()} {
		listed := quoted(where)
		for _, name := range names {
			if !slices.Contains(listed, name) {
				t.Errorf("docs/kafka.md does not name %s among %v", name, listed)
			}
		}
	}
}

// quoted are the words in code marks; a{b,c}d stands for two.
func quoted(text string) []string {
	var words []string
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		before, rest, several := strings.Cut(match[1], "{")
		choices, after, _ := strings.Cut(rest, "}")
		if !several {
			words = append(words, match[1])
			continue
		}
		for choice := range strings.SplitSeq(choices, ",") {
			words = append(words, before+choice+after)
		}
	}
	return words
}
