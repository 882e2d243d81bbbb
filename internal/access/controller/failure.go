package controller

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// requestError is a request that the API server did not carry out.
type requestError struct {
	verb string
	kind kind
	name types.NamespacedName
	err  error
}

func (e *requestError) Error() string {
	return fmt.Sprintf("%s %s %s: %v", e.verb, e.kind, e.name, e.err)
}

func (e *requestError) Unwrap() error { return e.err }

// problem is how a failure is reported, nil when there is none.
func problem(failed error) *binding.NotReadyError {
	if failed == nil {
		return nil
	}
	if problem, is := errors.AsType[*binding.NotReadyError](failed); is {
		return problem
	}
	if denial, is := errors.AsType[*watches.DeniedError](failed); is {
		return unnoticed(denial)
	}
	answer := excerpt.Of(failed.Error(), excerpt.Foreign)
	request, is := errors.AsType[*requestError](failed)
	switch {
	case is && apierrors.IsForbidden(failed):
		return &binding.NotReadyError{
			Reason:  binding.Forbidden,
			Problem: fmt.Sprintf("The API server did not allow the access operator to %s %s %s: %s.", request.verb, request.kind, request.name.Name, answer),
			Remedy: fmt.Sprintf("Grant its ServiceAccount the verb %s on %s in namespace %s, or change the quota or admission policy that the answer names.",
				request.verb, request.kind.resource(), request.name.Namespace),
		}
	case apierrors.IsUnauthorized(failed):
		return &binding.NotReadyError{
			Reason:  binding.Unauthorized,
			Problem: fmt.Sprintf("The API server did not accept the credentials of the access operator: %s.", answer),
			Remedy:  "Check the ServiceAccount of the access operator and its token.",
		}
	default:
		return &binding.NotReadyError{
			Reason:  binding.ReconciliationFailed,
			Problem: fmt.Sprintf("A request to the API server failed: %s.", answer),
			Remedy:  "It is retried. If this lasts, see the log of the access operator.",
		}
	}
}

// unnoticed is the problem of a KafkaAccess that is compared once a minute, because a watch is denied.
func unnoticed(denial *watches.DeniedError) *binding.NotReadyError {
	const operator = "the access operator"
	reason := binding.Forbidden
	switch denial.Code {
	case http.StatusUnauthorized:
		reason = binding.Unauthorized
	case http.StatusNotFound:
		reason = binding.ReconciliationFailed
	}
	return &binding.NotReadyError{
		Reason:      reason,
		Problem:     fmt.Sprintf("The API server %s.", denial.Answer(operator)),
		Consequence: "Changes are not noticed: a Secret that exists is compared about once a minute.",
		Remedy:      denial.Remedy(operator) + ".",
	}
}

// isRetried reports whether no event tells when a failure is over.
func isRetried(failed error) bool {
	if failed == nil {
		return false
	}
	_, is := errors.AsType[*binding.NotReadyError](failed)
	return !is
}

// isOutdated reports whether another process wrote in between.
func isOutdated(failed error) bool {
	return apierrors.IsConflict(failed) || apierrors.IsAlreadyExists(failed)
}
