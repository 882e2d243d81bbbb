package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// finish reports, also what has failed, and returns what another reconcile must try again soon. A write after a stale
// read says nothing about the cluster: the next reconcile reads again.
func (p *pass) finish(ctx context.Context, failed []error) error {
	var retried []error
	problems := make([]*model.Problem, 0, len(failed)+1)
	for _, err := range failed {
		problem, isRetried := p.explain(err)
		problems = append(problems, problem)
		if isRetried {
			retried = append(retried, err)
		}
	}
	isStale := len(failed) > 0 && !slices.ContainsFunc(failed, func(err error) bool { return !isStale(err) })
	if isStale && slices.Equal(p.members, recorded(p.etcd.Status)) {
		return errors.Join(retried...)
	}
	p.problem = model.Together(append(problems, p.problem)...)
	if p.problem != nil && p.problem.IsUnwatched() {
		p.wakeAt(p.now.Add(kube.Unwatched))
	}
	return errors.Join(append(retried, p.report(ctx))...)
}

// explain makes a problem of what has failed, and tells whether it is tried again soon. What the API server refuses is not.
func (p *pass) explain(failed error) (problem *model.Problem, isRetried bool) {
	found, isObstacle := errors.AsType[obstacle](failed)
	switch {
	case isStale(failed), errors.Is(failed, errClaimEnding), errors.Is(failed, errNoClaim):
		return nil, true
	case isObstacle:
		problem = found.problem()
	case isRefused(failed):
		problem = failure(failed)
		p.options.Log.Error(failed, "the API server refuses a request", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name)
	default:
		return failure(failed), true
	}
	p.wakeAt(p.now.Add(kube.Unwatched))
	return problem, false
}

func isStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || kube.IgnoreEnding(err) == nil
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
	return errors.Is(err, errNoRoom) || kube.IsRefused(err)
}
