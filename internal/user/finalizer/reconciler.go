package finalizer

import (
	"context"
	"errors"
	"fmt"

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
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/user/model"
)

// fieldOwner owns nothing: a finalizer that is removed has no owner.
const fieldOwner = client.FieldOwner("keyturn-user-finalizer")

// Options are what a Reconciler works with.
type Options struct {
	// Client reads the metadata of Kafkas and KafkaUsers from the cache, and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
}

// Cached is what the cache keeps of KafkaUsers: their names, the label of their Kafka, and their finalizers.
func Cached() cache.ByObject {
	return cache.ByObject{Transform: func(object any) (any, error) {
		if user, is := object.(client.Object); is {
			unattended.Trim(user)
			user.SetAnnotations(nil)
			user.SetOwnerReferences(nil)
			user.SetLabels(map[string]string{kafkamodel.ClusterLabel: user.GetLabels()[kafkamodel.ClusterLabel]})
		}
		return object, nil
	}}
}

// Reconciler removes the finalizers of KafkaUsers whose Kafka does not exist or is being deleted.
type Reconciler struct{ options Options }

// New returns a Reconciler. SetupWithManager starts it.
func New(options Options) *Reconciler { return &Reconciler{options} }

// SetupWithManager starts the controller: a user with a finalizer is looked at when it changes, and when its Kafka is
// deleted.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("kafkauser-finalizer").
		For(metadata(kafkav1.KindKafkaUser), builder.WithPredicates(predicate.NewPredicateFuncs(isKept))).
		Watches(metadata(kafkav1.KindKafka), handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(isGone())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting the controller of users' finalizers: %w", err)
	}
	return nil
}

// Reconcile removes the finalizers of a user that name a Kafka which is gone. One that exists may hold something for it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	user := metadata(kafkav1.KindKafkaUser)
	if err := r.options.Client.Get(ctx, request.NamespacedName, user); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var failed []error
	for _, kafka := range model.KeptFor(user) {
		failed = append(failed, r.releaseFrom(ctx, request.NamespacedName, kafka))
	}
	return ctrl.Result{}, errors.Join(failed...)
}

// releaseFrom removes the finalizer of one Kafka if that is gone.
func (r *Reconciler) releaseFrom(ctx context.Context, key types.NamespacedName, kafka string) error {
	for _, reader := range []client.Reader{r.options.Client, r.options.Live} {
		if isAlive, err := exists(ctx, reader, types.NamespacedName{Namespace: key.Namespace, Name: kafka}); err != nil || isAlive {
			return err
		}
	}
	user := metadata(kafkav1.KindKafkaUser)
	if err := r.options.Live.Get(ctx, key, user); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.remove(ctx, user, kafka)
}

// remove removes the finalizer from a user exactly as it was read: the cache may not have all of its finalizers.
func (r *Reconciler) remove(ctx context.Context, user *metav1.PartialObjectMetadata, kafka string) error {
	before := user.DeepCopy()
	if !model.LetGo(user, kafka) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.options.Client.Patch(ctx, user, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing finalizer %s of KafkaUser %s/%s: %w", model.Finalizer(kafka), user.Namespace, user.Name, err)
	}
	r.options.Events.Eventf(user, nil, corev1.EventTypeNormal, model.KafkaDeleted, "RemoveFinalizer", "%s", model.Abandoned(kafka))
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

// usersOf are the users that have the finalizer of a Kafka, whatever their label.
func (r *Reconciler) usersOf(ctx context.Context, kafka client.Object) []reconcile.Request {
	users := &metav1.PartialObjectMetadataList{}
	users.SetGroupVersionKind(kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaUser + "List"))
	if err := r.options.Client.List(ctx, users, client.InNamespace(kafka.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the users of a deleted Kafka", "kafka", kafka.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range users.Items {
		if model.IsKeptFor(&users.Items[i], kafka.GetName()) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&users.Items[i])})
		}
	}
	return requests
}

func isKept(user client.Object) bool { return len(model.KeptFor(user)) > 0 }

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
