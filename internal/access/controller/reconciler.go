package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/operate"
)

// References says when a KafkaAccess may refer to objects of another namespace.
type References string

const (
	// WithConsent asks for the annotation binding.ConsentAnnotation on the object.
	WithConsent References = "consent"
	// Unrestricted is unsafe: the right to create a KafkaAccess becomes the right to read the credentials of every
	// KafkaUser.
	Unrestricted References = "unrestricted"
)

// Options are what a Reconciler works with.
type Options struct {
	// Client writes, and reads from the cache what tells whether there is anything to do.
	Client client.Client
	// Live reads past the cache: an object that the cache does not have may exist, and Secrets must not be cached.
	Live    client.Reader
	Events  events.EventRecorder
	Clock   clock.PassiveClock
	Metrics *Metrics
	// Watches knows which of the watches are denied; nil where nothing is watched.
	Watches *watches.Observer
	// References says when objects of another namespace may be referred to.
	References References
	// Namespaces are those that are watched; none means all.
	Namespaces []string
}

// Reconciler writes the Secret and the status of each KafkaAccess of one form.
type Reconciler struct {
	options    Options
	form       binding.Form
	applier    *kube.Applier
	statuses   *operate.Statuses
	events     operate.Events
	references *references
	settled    operate.Known[types.NamespacedName, settled]
	// named watches Secrets that do not carry the label by which all others are watched.
	named *kube.Named
}

// New returns a Reconciler for the KafkaAccesses of a form.
func New(form binding.Form, options Options) *Reconciler {
	return &Reconciler{
		options:    options,
		form:       form,
		applier:    kube.NewApplier(options.Client, binding.Owner),
		statuses:   operate.NewStatuses(options.Client, binding.Owner),
		events:     operate.Events{Recorder: options.Events, Action: action},
		references: newReferences(),
		named:      kube.NewNamed(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}),
	}
}

// Reconcile reports a new KafkaAccess as not ready, writes its Secret and reports again.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.isSettled(ctx, request.NamespacedName) {
		return ctrl.Result{}, nil
	}
	r.settled.Forget(request.NamespacedName)
	object := newObject(r.form)
	err := r.options.Live.Get(ctx, request.NamespacedName, object)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading KafkaAccess %s: %w", request, err)
	case !object.GetDeletionTimestamp().IsZero():
		// The garbage collector deletes the Secret.
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	access := accessOf(object)
	if binding.Ready(access) == nil {
		if err := r.report(ctx, access, binding.First(access, r.options.Clock.Now())); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.pass(ctx, access)
}

func (r *Reconciler) pass(ctx context.Context, access *binding.Access) error {
	p := newPass(r, access)
	outcome, failed := p.settle(ctx)
	p.watch()
	if isOutdated(failed) {
		return failed // what the other process wrote is read next
	}
	if failed != nil && kube.IgnoreEnding(failed) == nil {
		return nil
	}
	if err := r.report(ctx, access, binding.Status(access, outcome, r.options.Clock.Now())); err != nil {
		return err
	}
	if isRetried(failed) {
		return failed
	}
	if denied := p.unwatched(); denied != nil {
		return denied // no event tells that the problem is over
	}
	if len(p.unlabelled) == 0 { // the cache shows no others
		r.settled.Put(access.Key(), settled{access, p.read})
	}
	return nil
}

// forget drops everything that is remembered of a KafkaAccess that is gone.
func (r *Reconciler) forget(access types.NamespacedName) {
	r.references.trim(access, nil)
	r.named.ReferTo(access, nil)
	r.statuses.Forget(accessv1alpha1.KindKafkaAccess, access)
	r.options.Metrics.forget(r.form.GroupVersion, access)
}
