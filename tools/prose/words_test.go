package prose

import (
	"regexp"
	"strings"
	"testing"
)

// persons are words for persons. Processes and objects are not: a node reports, the operator polls.
var persons = regexp.MustCompile(`(?i)\b(?:he|him|his|whom|whoever|anybody|everybody|nobody|somebody)\b`)

// personsAllowed is how many of them may be left, and only falls.
const personsAllowed = 23

func TestProcessesAreNoPersons(t *testing.T) {
	t.Parallel()
	count, worst, most := 0, "", 0
	for _, folder := range []string{"/internal", "/cmd", "/api"} {
		for path, text := range files(t, root+folder, ".go") {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			found := len(persons.FindAllString(text, -1))
			count += found
			if found > most {
				worst, most = path, found
			}
		}
	}
	if count > personsAllowed {
		t.Errorf("the code has %d words for persons, of which %d may be left; most are in %s (%d)", count, personsAllowed, strings.TrimPrefix(worst, root+"/"), most)
	}
}
