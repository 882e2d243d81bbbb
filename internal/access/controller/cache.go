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

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
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
		kept.Annotations = consent(&object.ObjectMeta)
		kept.Spec.Kafka.Listeners = object.Spec.Kafka.Listeners
		kept.Status.Listeners = mentionedListeners(object)
		return kept, nil
	case *kafkav1.KafkaUser:
		kept := &kafkav1.KafkaUser{TypeMeta: object.TypeMeta, ObjectMeta: mention(&object.ObjectMeta)}
		kept.Labels, kept.Annotations = object.Labels, consent(&object.ObjectMeta)
		kept.Spec.Authentication = object.Spec.Authentication
		kept.Status.Secret, kept.Status.Username = object.Status.Secret, object.Status.Username
		return kept, nil
	case *accessv1alpha1.KafkaAccess:
		return &accessv1alpha1.KafkaAccess{
			TypeMeta: object.TypeMeta, ObjectMeta: mentionOfAccess(&object.ObjectMeta), Spec: object.Spec, Status: object.Status,
		}, nil
	case *kafkav1beta2.KafkaAccess:
		return &kafkav1beta2.KafkaAccess{
			TypeMeta: object.TypeMeta, ObjectMeta: mentionOfAccess(&object.ObjectMeta), Spec: object.Spec, Status: object.Status,
		}, nil
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

// mentionOfAccess is mention with what tells which of two is older, and with what the status warns of.
func mentionOfAccess(of *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := mention(of)
	kept.CreationTimestamp, kept.Annotations = of.CreationTimestamp, binding.IdleAnnotations(of.Annotations)
	return kept
}

// consent is the annotation by which an object lets others refer to it.
func consent(of *metav1.ObjectMeta) map[string]string {
	if value, is := of.Annotations[binding.ConsentAnnotation]; is {
		return map[string]string{binding.ConsentAnnotation: value}
	}
	return nil
}

// mentionedListeners are the addresses, and the certificates of listeners with a certificate of their own.
func mentionedListeners(kafka *kafkav1.Kafka) []kafkav1.ListenerStatus {
	mentioned := make([]kafkav1.ListenerStatus, 0, len(kafka.Status.Listeners))
	for _, status := range kafka.Status.Listeners {
		kept := kafkav1.ListenerStatus{Name: status.Name, BootstrapServers: status.BootstrapServers}
		if slices.ContainsFunc(kafka.Spec.Kafka.Listeners, func(l kafkav1.Listener) bool { return l.Name == status.Name && binding.IsCustom(&l) }) {
			kept.Certificates = status.Certificates
		}
		mentioned = append(mentioned, kept)
	}
	return mentioned
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
