package unattended

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/keyturn/keyturn/internal/kube"
)

// Patience is for how long an operator that is switched on may leave a new object without a status.
const Patience = 2 * time.Minute

// Options are what a Reconciler needs.
type Options struct {
	// Client reads metadata from the cache, trimmed by Trim, and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// Reconciler reports objects of one kind.
type Reconciler struct {
	options Options
	kind    Kind
	applier *kube.Applier
}

// New returns a Reconciler.
func New(kind Kind, options Options) *Reconciler {
	return &Reconciler{options: options, kind: kind, applier: kube.NewApplier(options.Client, kind.Owner)}
}

// SetupWithManager starts it, unless the API server does not have the kind.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	_, err := mgr.GetRESTMapper().RESTMapping(r.kind.GroupKind(), r.kind.Version)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the definition of %s: %w", r.kind.GroupKind(), err)
	}
	lacksStatus := predicate.NewPredicateFuncs(func(object client.Object) bool { return !hasStatus(object) })
	err = ctrl.NewControllerManagedBy(mgr).
		Named("unattended-"+strings.ToLower(r.kind.GroupKind().String())).
		For(r.kind.metadata(), builder.WithPredicates(lacksStatus)).
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
	object := r.kind.metadata()
	if err := reader.Get(ctx, name, object); err != nil {
		return nil, never, client.IgnoreNotFound(err)
	}
	if hasStatus(object) || !object.DeletionTimestamp.IsZero() {
		return nil, never, nil
	}
	return object, max(object.CreationTimestamp.Add(Patience).Sub(r.options.Clock.Now()), 0), nil
}

func (r *Reconciler) report(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	intent := r.kind.intent(object, r.options.Clock.Now())
	if err := r.applier.ApplyStatus(ctx, client.ApplyConfigurationFromUnstructured(intent)); err != nil {
		return err
	}
	r.options.Events.Eventf(object, nil, corev1.EventTypeWarning, Reason, "Report", "%s", r.kind.Message(object))
	return nil
}
