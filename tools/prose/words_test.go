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

// metaphors are words that functions are not named by: a condition comes after the verb, and the field has terms for the others.
var metaphors = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?((?:unless|still|also)(?:[A-Z]\w*)?|\w*(?:[uU]nheard|[tT]estimon|[vV]ouch|[nN]udge|[sS]tranded)\w*)\(`)

func TestFunctionsAreNamedByTermsOfTheField(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"/internal", "/cmd", "/e2e"} {
		for path, text := range files(t, root+folder, ".go") {
			for _, found := range metaphors.FindAllStringSubmatch(text, -1) {
				if !strings.HasSuffix(path, "_test.go") {
					t.Errorf("%s names a function %s", strings.TrimPrefix(path, root+"/"), found[1])
				}
			}
		}
	}
}

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
