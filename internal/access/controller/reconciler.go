package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube"
)

// Options are what a Reconciler works with.
type Options struct {
	// Client writes.
	Client client.Client
	// Live reads past the cache: an object that the cache does not have may exist, and Secrets must not be cached.
	Live    client.Reader
	Events  events.EventRecorder
	Clock   clock.PassiveClock
	Metrics *Metrics
}

// Reconciler writes the Secret and the status of each KafkaAccess.
type Reconciler struct {
	options    Options
	applier    *kube.Applier
	references *references
	// named watches Secrets that do not carry the label by which all others are watched.
	named *kube.Named
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		options:    options,
		applier:    kube.NewApplier(options.Client, binding.Owner),
		references: newReferences(),
		named:      kube.NewNamed(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}),
	}
}

// Reconcile reports a new KafkaAccess as not ready, writes its Secret and reports again.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	access := &accessv1alpha1.KafkaAccess{}
	err := r.options.Live.Get(ctx, request.NamespacedName, access)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading KafkaAccess %s: %w", request, err)
	case !access.DeletionTimestamp.IsZero():
		// The garbage collector deletes the Secret.
		r.forget(request)
		return ctrl.Result{}, nil
	}
	if binding.Ready(access) == nil {
		if err := r.report(ctx, access, binding.First(access, r.options.Clock.Now())); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.pass(ctx, access)
}

func (r *Reconciler) pass(ctx context.Context, access *accessv1alpha1.KafkaAccess) error {
	p := newPass(r, access)
	listener, failed := p.bind(ctx)
	p.watch()
	if apierrors.IsConflict(failed) || apierrors.IsAlreadyExists(failed) {
		return failed // another process wrote in between: what it wrote is read next
	}
	if failed != nil && kube.IgnoreEnding(failed) == nil {
		return nil
	}
	outcome := binding.Outcome{Listener: listener, Problem: problem(failed)}
	if err := r.report(ctx, access, binding.Status(access, outcome, r.options.Clock.Now())); err != nil {
		return err
	}
	if isRetried(failed) {
		return failed
	}
	return nil
}

// forget drops everything that is remembered of a KafkaAccess that is gone.
func (r *Reconciler) forget(request ctrl.Request) {
	r.references.trim(request.NamespacedName, nil)
	r.named.Refer(request.NamespacedName, nil)
	r.options.Metrics.forget(request.NamespacedName)
}
