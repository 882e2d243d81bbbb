package kubetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrCrash is what an operator gets for each write once it has crashed.
var ErrCrash = errors.New("the operator has crashed")

// Write is something that an operator changes.
type Write struct {
	// Verb is what is done: create, patch, apply, "apply status of", delete, or a verb of what is not Kubernetes.
	Verb string
	// Object is an object, an apply configuration, or the name of what is not Kubernetes.
	Object any
}

// Target is the kind and name of the object that is written.
func (w Write) Target() string {
	named, isNamed := w.Object.(interface{ GetName() string })
	if !isNamed {
		return fmt.Sprint(w.Object)
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", w.Object), "*v1.")
	if typed, isTyped := w.Object.(interface{ GetKind() string }); isTyped {
		kind = typed.GetKind()
	}
	return kind + " " + named.GetName()
}

// String names the write.
func (w Write) String() string { return w.Verb + " " + w.Target() }

// Writer is the client of an operator. It counts writes, and lets the operator crash at one of them: neither that nor any
// later write is sent. It is not safe for concurrent use.
type Writer struct {
	client.Client

	// Sent counts the writes that were sent, and Written those of them that succeeded.
	Sent, Written int
	// Last is the write that was asked for last, whether it was sent or not.
	Last Write
	// CrashAt is the count of Sent that the operator does not reach; 0 means that it does not crash there.
	CrashAt int
	// Crashed is set once a write was not sent because of CrashAt. Tests may set it, or clear it when the next operator starts.
	Crashed bool
	// Before returns why a write is not sent; nil sends all.
	Before func(Write) error
	// After is called after each write that succeeded; nil calls nothing.
	After func(Write)
}

// Count counts what send changes, which need not be in Kubernetes. It returns the error of send, or why nothing is sent.
func (w *Writer) Count(verb string, object any, send func() error) error {
	write := Write{Verb: verb, Object: object}
	w.Last = write
	w.Crashed = w.Crashed || w.CrashAt > 0 && w.Sent+1 >= w.CrashAt
	if w.Crashed {
		return ErrCrash
	}
	if w.Before != nil {
		if err := w.Before(write); err != nil {
			return err
		}
	}
	w.Sent++
	if err := send(); err != nil {
		return err
	}
	w.Written++
	if w.After != nil {
		w.After(write)
	}
	return nil
}

// Create implements client.Client.
func (w *Writer) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return w.Count("create", object, func() error { return w.Client.Create(ctx, object, options...) })
}

// Patch implements client.Client.
func (w *Writer) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return w.Count("patch", object, func() error { return w.Client.Patch(ctx, object, patch, options...) })
}

// Apply implements client.Client.
func (w *Writer) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return w.Count("apply", object, func() error { return w.Client.Apply(ctx, object, options...) })
}

// Delete implements client.Client.
func (w *Writer) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return w.Count("delete", object, func() error { return w.Client.Delete(ctx, object, options...) })
}

// Status implements client.Client.
func (w *Writer) Status() client.SubResourceWriter { return statusWriter{w.Client.Status(), w} }

type statusWriter struct {
	client.SubResourceWriter

	writer *Writer
}

// Apply implements client.SubResourceWriter.
func (s statusWriter) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return s.writer.Count("apply status of", object, func() error { return s.SubResourceWriter.Apply(ctx, object, options...) })
}
