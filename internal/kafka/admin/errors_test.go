package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

func TestAnErrorSaysWhetherKafkaHasAnsweredAndWhetherItPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err                     error
		isUnanswered, isPassing bool
	}{
		"a broker is not there":            {&admin.UnreachableError{Address: "a", Err: errors.New("no route")}, true, false},
		"it is another server":             {&admin.UntrustedError{}, true, false},
		"it does not accept the operator":  {&admin.RefusedError{Address: "a", Err: kerr.ClusterAuthorizationFailed}, true, false},
		"a broker names a stranger":        {&admin.StrangerError{Address: "a"}, true, false},
		"the time is over":                 {fmt.Errorf("listing topics: %w", context.DeadlineExceeded), true, false},
		"it has too much to do":            {fmt.Errorf("creating topic a: %w", kerr.ThrottlingQuotaExceeded), false, true},
		"it does not take the change":      {&admin.RejectedError{Doing: "creating topic a", Err: kerr.InvalidConfig}, false, false},
		"its answer cannot be made use of": {errors.New("the topics take more than is kept"), false, false},
	} {
		if got := admin.IsUnanswered(c.err); got != c.isUnanswered {
			t.Errorf("%s: unanswered is %t, want %t", name, got, c.isUnanswered)
		}
		if got := admin.IsPassing(c.err); got != c.isPassing {
			t.Errorf("%s: passing is %t, want %t", name, got, c.isPassing)
		}
	}
}
