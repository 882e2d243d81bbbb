package controller

import (
	"context"
	"errors"
	"slices"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube"
)

// unwritten is what could not be written in a reconcile. What a node or an object needs is its own: the others get theirs, and
// what failed is told together.
type unwritten struct{ failed []error }

// Error names the first failures and counts the rest.
func (u *unwritten) Error() string {
	texts := make([]string, 0, len(u.failed))
	for _, err := range u.failed {
		texts = append(texts, err.Error())
	}
	return excerpt.First(texts, excerpt.Named, "; ")
}

// Unwrap makes each failure known to errors.Is and errors.As.
func (u *unwritten) Unwrap() []error { return u.failed }

// together is one error of several, nil when there is none.
func together(failed ...error) error {
	all := make([]error, 0, len(failed))
	for _, err := range failed {
		all = append(all, parts(err)...)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	default:
		return &unwritten{all}
	}
}

// parts are the failures that an error tells together.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	if many, is := errors.AsType[*unwritten](err); is {
		return many.failed
	}
	return []error{err}
}

// each does something for all of a list, also after it has failed for some. It ends where the reconcile has to: its time is over,
// or another write came first.
func each[T any](ctx context.Context, list []T, do func(T) error) error {
	var failed []error
	for _, one := range list {
		err := do(one)
		failed = append(failed, err)
		if endsPass(ctx, err) {
			break
		}
	}
	return together(failed...)
}

func endsPass(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errOvertaken)
}

// sharedError is an object that could not be written, on which all nodes depend. None is restarted until it is.
type sharedError struct{ error }

func (e *sharedError) Unwrap() error { return e.error }

// holdsRestarts reports whether something that all nodes depend on is unwritten, or the reconcile begins again anyway. A node
// whose own objects are is left out of the rest of the reconcile.
func holdsRestarts(ctx context.Context, left error) bool {
	_, isShared := errors.AsType[*sharedError](left)
	return isShared || left != nil && (lostRace(left) || endsPass(ctx, left))
}

// retried is what of a failure may go by itself; nil when a person has to change something first.
func retried(failure error) error {
	return together(slices.DeleteFunc(slices.Clone(parts(failure)), kube.IsRefused)...)
}

func isRefused(failure error) bool { return failure != nil && retried(failure) == nil }
