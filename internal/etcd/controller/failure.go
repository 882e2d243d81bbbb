package controller

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube"
)

// createError is an object of the cluster that was not created.
type createError struct {
	kind, name string
	err        error
}

func (e *createError) Error() string { return fmt.Sprintf("creating %s %s: %v", e.kind, e.name, e.err) }

func (e *createError) Unwrap() error { return e.err }

// finish reports, also what has stopped the reconcile, and returns what another one must try again soon. A write after a
// stale read says nothing about the cluster: the next reconcile reads again.
func (p *pass) finish(ctx context.Context, failed error) error {
	if apierrors.IsConflict(failed) || apierrors.IsAlreadyExists(failed) || failed != nil && kube.IgnoreEnding(failed) == nil {
		return failed
	}
	retried := p.explain(failed)
	if p.problem != nil && p.problem.IsUnwatched() {
		p.wakeAt(p.now.Add(kube.Unwatched))
	}
	return errors.Join(retried, p.report(ctx))
}

// explain makes a problem of what has stopped the reconcile. What the API server refuses is not tried again immediately.
func (p *pass) explain(failed error) error {
	found, isObstacle := errors.AsType[obstacle](failed)
	switch {
	case failed == nil, errors.Is(failed, errClaimEnding), errors.Is(failed, errNoClaim):
		return failed
	case isObstacle:
		p.problem = found.problem()
	default:
		p.problem = failure(failed)
		if !isRefused(failed) {
			return failed
		}
		p.options.Log.Error(failed, "the API server refuses a request", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name)
	}
	p.wakeAt(p.now.Add(kube.Unwatched))
	return nil
}

func failure(failed error) *model.Problem {
	answer := excerpt.Of(failed.Error(), excerpt.Foreign)
	if created, is := errors.AsType[*createError](failed); is && created.kind == "Pod" && isRefused(failed) {
		return model.RefusedPod(created.name, answer)
	}
	return model.Failure(answer)
}

// isRefused reports whether the answer is the same until a person changes something.
func isRefused(err error) bool {
	return errors.Is(err, errNoRoom) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
