// Package controller writes a status for objects whose operator is missing. It watches their metadata alone, and never
// writes to an object that has a status.
package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/unattended"
)

// Options are what a Reconciler needs.
type Options struct {
	// Client reads metadata from the cache, trimmed by unattended.Trim, and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// Reconciler reports objects of one kind.
type Reconciler struct {
	options Options
	kind    unattended.Kind
	applier *kube.Applier
}

// New returns a Reconciler.
func New(kind unattended.Kind, options Options) *Reconciler {
	return &Reconciler{options: options, kind: kind, applier: kube.NewApplier(options.Client, kind.Owner)}
}

// SetupWithManager starts it. The API server has to have the kind.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	lacksStatus := predicate.NewPredicateFuncs(func(object client.Object) bool { return !unattended.HasStatus(object) })
	err := ctrl.NewControllerManagedBy(mgr).
		Named("unattended-"+strings.ToLower(r.kind.GroupKind().String())).
		For(r.kind.Metadata(), builder.WithPredicates(lacksStatus)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting to watch for each %s without a status: %w", r.kind.GroupKind(), err)
	}
	return nil
}

// Reconcile gives an object a status that has none after a while. Before that it asks the API server itself.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if _, wait, err := r.find(ctx, r.options.Client, request.NamespacedName); err != nil || wait != 0 {
		return ctrl.Result{RequeueAfter: max(wait, 0)}, err
	}
	object, wait, err := r.find(ctx, r.options.Live, request.NamespacedName)
	if err != nil || wait != 0 {
		return ctrl.Result{RequeueAfter: max(wait, 0)}, err
	}
	return ctrl.Result{}, r.report(ctx, object)
}

// never is the wait for an object that is gone or has a status.
const never = -1

// find returns an object that should have a status by now, or how long it may still be without one.
func (r *Reconciler) find(ctx context.Context, reader client.Reader, name client.ObjectKey) (*metav1.PartialObjectMetadata, time.Duration, error) {
	object := r.kind.Metadata()
	if err := reader.Get(ctx, name, object); err != nil {
		return nil, never, client.IgnoreNotFound(err)
	}
	if unattended.HasStatus(object) || !object.DeletionTimestamp.IsZero() {
		return nil, never, nil
	}
	return object, max(object.CreationTimestamp.Add(unattended.Patience).Sub(r.options.Clock.Now()), 0), nil
}

func (r *Reconciler) report(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	intent := r.kind.Intent(object, r.options.Clock.Now())
	if err := r.applier.ApplyStatus(ctx, client.ApplyConfigurationFromUnstructured(intent)); err != nil {
		return err
	}
	r.options.Events.Eventf(object, nil, corev1.EventTypeWarning, unattended.Reason, "Report", "%s", r.kind.Message(object))
	return nil
}
