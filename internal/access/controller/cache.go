package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

// managers are the values of the label by which Secrets are watched: those of CAs, of users and of applications.
func managers() []string {
	return []string{"strimzi-cluster-operator", "strimzi-user-operator", binding.ManagedBy}
}

// isLabelled reports whether a Secret with these labels is watched with all others. CA Secrets that people bring
// need not have the label.
func isLabelled(of map[string]string) bool {
	return slices.Contains(managers(), of[binding.ManagedByLabel])
}

// CacheOptions limit the cache to what tells when to reconcile a KafkaAccess, in the namespaces or everywhere
// when there are none. Everything else is read when it is needed.
func CacheOptions(namespaces []string) cache.Options {
	selector := labels.NewSelector()
	if requirement, err := labels.NewRequirement(binding.ManagedByLabel, selection.In, managers()); err == nil {
		selector = selector.Add(*requirement)
	}
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            mentioned,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Label: selector, Transform: mentioned},
		},
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// mentioned keeps of an object that it exists and in which version, and what isNews looks at.
func mentioned(object any) (any, error) {
	switch object := object.(type) {
	case *kafkav1.Kafka:
		kept := &kafkav1.Kafka{TypeMeta: object.TypeMeta, ObjectMeta: mention(&object.ObjectMeta)}
		kept.Spec.Kafka.Listeners = object.Spec.Kafka.Listeners
		for i := range object.Status.Listeners {
			kept.Status.Listeners = append(kept.Status.Listeners, kafkav1.ListenerStatus{
				Name: object.Status.Listeners[i].Name, BootstrapServers: object.Status.Listeners[i].BootstrapServers,
			})
		}
		return kept, nil
	case *kafkav1.KafkaUser:
		kept := &kafkav1.KafkaUser{TypeMeta: object.TypeMeta, ObjectMeta: mention(&object.ObjectMeta)}
		kept.Labels = object.Labels
		kept.Spec.Authentication = object.Spec.Authentication
		kept.Status.Secret, kept.Status.Username = object.Status.Secret, object.Status.Username
		return kept, nil
	case *metav1.PartialObjectMetadata:
		return &metav1.PartialObjectMetadata{TypeMeta: object.TypeMeta, ObjectMeta: mention(&object.ObjectMeta)}, nil
	default:
		return object, nil
	}
}

func mention(of *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion,
		Generation: of.Generation, DeletionTimestamp: of.DeletionTimestamp,
	}
}

// isNews drops changes of a Kafka or a KafkaUser that no Secret depends on: a rotation reports its progress in the
// status of the Kafka, which hundreds of applications may refer to. The cache holds nothing else of them.
func isNews() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(change event.UpdateEvent) bool {
		if change.ObjectOld == nil || change.ObjectNew == nil {
			return true
		}
		return !equality.Semantic.DeepEqual(unversioned(change.ObjectOld), unversioned(change.ObjectNew))
	}}
}

func unversioned(object client.Object) runtime.Object {
	object, is := object.DeepCopyObject().(client.Object)
	if is {
		object.SetResourceVersion("")
		object.SetGeneration(0)
	}
	return object
}
