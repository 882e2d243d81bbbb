package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/finalizers"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	topicmodel "github.com/keyturn/keyturn/internal/topic/model"
	"github.com/keyturn/keyturn/internal/unattended"
	usermodel "github.com/keyturn/keyturn/internal/user/model"
)

// fieldOwner owns nothing: a finalizer that is removed has no owner.
const fieldOwner = client.FieldOwner("keyturn-finalizer")

// Options are what a Reconciler works with.
type Options struct {
	// Client reads the metadata of Kafkas and of the kind from the cache, and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
}

// Cached is what the cache keeps of a kind: names, the label of the Kafka, and finalizers.
func Cached() cache.ByObject {
	return cache.ByObject{Transform: func(object any) (any, error) {
		if kept, is := object.(client.Object); is {
			unattended.Trim(kept)
			kept.SetAnnotations(nil)
			kept.SetOwnerReferences(nil)
			kept.SetLabels(map[string]string{kafkamodel.ClusterLabel: kept.GetLabels()[kafkamodel.ClusterLabel]})
		}
		return object, nil
	}}
}

// kind is a kind of objects that finalizers keep for Kafkas.
type kind struct {
	name       string
	controller string
	finalizers finalizers.Kind
	// abandoned is what is said of an object whose Kafka is gone.
	abandoned func(kafka string) string
}

// Reconciler removes the finalizers of objects of one kind whose Kafka does not exist or is being deleted.
type Reconciler struct {
	options Options
	kind    kind
}

// Users returns a Reconciler of KafkaUsers. SetupWithManager starts it.
func Users(options Options) *Reconciler {
	return &Reconciler{options, kind{kafkav1.KindKafkaUser, "kafkauser-finalizer", finalizers.Users, usermodel.Abandoned}}
}

// Topics returns a Reconciler of KafkaTopics. SetupWithManager starts it.
func Topics(options Options) *Reconciler {
	return &Reconciler{options, kind{kafkav1.KindKafkaTopic, "kafkatopic-finalizer", finalizers.Topics, topicmodel.Abandoned}}
}

// SetupWithManager starts the controller: an object with a finalizer is looked at when it changes, and when its Kafka is
// deleted.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named(r.kind.controller).
		For(metadata(r.kind.name), builder.WithPredicates(predicate.NewPredicateFuncs(r.isKept))).
		Watches(metadata(kafkav1.KindKafka), handler.EnqueueRequestsFromMapFunc(r.objectsOf), builder.WithPredicates(isGone())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting the controller of finalizers of %ss: %w", r.kind.name, err)
	}
	return nil
}

// Reconcile removes the finalizers of an object that name a Kafka which is gone. One that exists may hold something for it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := metadata(r.kind.name)
	if err := r.options.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	gone, failed := r.gone(ctx, object)
	return ctrl.Result{}, errors.Join(failed, r.remove(ctx, request.NamespacedName, gone))
}

// atOnce is how many finalizers of one object are looked at. Any client may write thousands, and what is left has its turn after others.
const atOnce = 100

// gone are Kafkas that keep an object and do not exist any more. One that cannot be read keeps no other.
func (r *Reconciler) gone(ctx context.Context, object *metav1.PartialObjectMetadata) ([]string, error) {
	var gone []string
	var failed []error
	kafkas := r.kind.finalizers.KeptFor(object)
	for _, kafka := range kafkas[:min(len(kafkas), atOnce)] {
		isAlive, err := r.isAlive(ctx, types.NamespacedName{Namespace: object.Namespace, Name: kafka})
		if err != nil {
			failed = append(failed, err)
		} else if !isAlive {
			gone = append(gone, kafka)
		}
	}
	return gone, errors.Join(failed...)
}

func (r *Reconciler) isAlive(ctx context.Context, kafka types.NamespacedName) (bool, error) {
	for _, reader := range []client.Reader{r.options.Client, r.options.Live} {
		if isAlive, err := exists(ctx, reader, kafka); err != nil || isAlive {
			return isAlive, err
		}
	}
	return false, nil
}

// remove removes the finalizers of Kafkas from an object in one patch.
func (r *Reconciler) remove(ctx context.Context, key types.NamespacedName, gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	object := metadata(r.kind.name)
	if err := r.options.Live.Get(ctx, key, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := object.DeepCopy()
	removed := slices.DeleteFunc(gone, func(kafka string) bool { return !r.kind.finalizers.LetGo(object, kafka) })
	if len(removed) == 0 {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.options.Client.Patch(ctx, object, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizers of %d Kafkas from %s %s/%s: %w", len(removed), r.kind.name, object.Namespace, object.Name, err)
	}
	for _, kafka := range removed[:min(len(removed), excerpt.Named)] {
		r.options.Events.Eventf(object, nil, corev1.EventTypeNormal, usermodel.KafkaDeleted, "RemoveFinalizer", "%s", r.kind.abandoned(kafka))
	}
	return nil
}

// exists reports whether a Kafka exists and is not being deleted.
func exists(ctx context.Context, reader client.Reader, name types.NamespacedName) (bool, error) {
	if name.Name == "" {
		return false, nil
	}
	kafka := metadata(kafkav1.KindKafka)
	if err := reader.Get(ctx, name, kafka); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return false, fmt.Errorf("reading Kafka %s: %w", name, err)
		}
		return false, nil
	}
	return kafka.DeletionTimestamp.IsZero(), nil
}

// objectsOf are the objects that have the finalizer of a Kafka, whatever their label.
func (r *Reconciler) objectsOf(ctx context.Context, kafka client.Object) []reconcile.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kafkav1.GroupVersion.WithKind(r.kind.name + "List"))
	if err := r.options.Client.List(ctx, list, client.InNamespace(kafka.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the objects of a deleted Kafka", "kind", r.kind.name, "kafka", kafka.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if r.kind.finalizers.IsKeptFor(&list.Items[i], kafka.GetName()) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

func (r *Reconciler) isKept(object client.Object) bool {
	return len(r.kind.finalizers.KeptFor(object)) > 0
}

// isGone lets through what is deleted, or begins to be.
func isGone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.Object.GetDeletionTimestamp().IsZero() },
		UpdateFunc: func(e event.UpdateEvent) bool { return !e.ObjectNew.GetDeletionTimestamp().IsZero() },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

func metadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kafkav1.GroupVersion.WithKind(kind))
	return object
}
