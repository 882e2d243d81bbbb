package controller

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

func TestAFailureIsReportedAndRetriedByItsKind(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	denied := func(code int) error {
		return &watches.DeniedError{Resource: secrets, Namespace: "kafka", Verb: "watch", Code: code}
	}
	failing := func(err error) error {
		return &requestError{verb: "patch", kind: ofSecret, name: named("my-app"), err: fmt.Errorf("applying: %w", err)}
	}
	for name, test := range map[string]struct {
		failed  error
		reason  binding.Reason
		message string
		retried bool
	}{
		"a permission":                 {failed: failing(apierrors.NewForbidden(secrets, "my-app", errors.New("no"))), reason: binding.Forbidden, message: "the verb patch on secrets in namespace kafka", retried: true},
		"credentials":                  {failed: failing(apierrors.NewUnauthorized("no")), reason: binding.Unauthorized, retried: true},
		"anything else":                {failed: failing(errors.New("connection refused")), reason: binding.ReconciliationFailed, message: "connection refused", retried: true},
		"a watch":                      {failed: denied(http.StatusForbidden), reason: binding.Forbidden, message: "Changes are not noticed: a Secret that exists is compared about once a minute. Grant its ServiceAccount the verbs list and watch on secrets in namespace kafka,", retried: true},
		"a watch without credentials":  {failed: denied(http.StatusUnauthorized), reason: binding.Unauthorized, retried: true},
		"a watch of what is not there": {failed: denied(http.StatusNotFound), reason: binding.ReconciliationFailed, message: "has had no resource secrets", retried: true},
		"bad input":                    {failed: fmt.Errorf("reading: %w", binding.Missing("Kafka", "kafka", "my-cluster", "spec.kafka.name")), reason: binding.MissingKubernetesResource},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := problem(test.failed)
			if got.Reason != test.reason || !strings.Contains(got.Error(), test.message) || isRetried(test.failed) != test.retried {
				t.Errorf("%s, retried: %t: %v", got.Reason, isRetried(test.failed), got)
			}
		})
	}
	if problem(nil) != nil || isRetried(nil) {
		t.Error("nothing has failed, and is reported")
	}
}
