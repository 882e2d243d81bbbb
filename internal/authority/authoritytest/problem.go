// Package authoritytest helps tests of those who decide about certificates.
package authoritytest

import (
	"errors"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
)

// WantProblem fails unless the error tells people of complete problems, in which all
// fragments are mentioned and nothing of a key or a certificate.
func WantProblem(t *testing.T, err error, fragments ...string) {
	t.Helper()
	invalid, ok := errors.AsType[*authority.InvalidResourceError](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidResourceError", err)
	}
	for _, fragment := range fragments {
		if !strings.Contains(err.Error(), fragment) {
			t.Errorf("the message does not mention %q: %s", fragment, err)
		}
	}
	for _, problem := range invalid.Problems {
		if problem.Object == "" || problem.Wrong == "" || problem.Remedy == "" {
			t.Errorf("a problem is not complete: %+v", problem)
		}
	}
	if strings.Contains(err.Error(), "-----") {
		t.Error("the message contains PEM")
	}
}
