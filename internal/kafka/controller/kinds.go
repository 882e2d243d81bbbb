package controller

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Kafka and KafkaNodePool are read as they were written, because warnings name the
// fields that have no effect.
func kafkaKind() schema.GroupVersionKind { return kafkav1.GroupVersion.WithKind(kafkav1.KindKafka) }

func poolKind() schema.GroupVersionKind {
	return kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaNodePool)
}

func secretKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Secret") }

func serviceKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Service") }

func serviceAccountKind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("ServiceAccount")
}

func disruptionBudgetKind() schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
}

func networkPolicyKind() schema.GroupVersionKind {
	return networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")
}

func podSetGroupKind() schema.GroupKind {
	return schema.GroupKind{Group: podsetv1.Group, Kind: podSetKind}
}

func podSetVersionKind() schema.GroupVersionKind {
	return podSetGroupKind().WithVersion(objectVersion)
}

func configMapKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("ConfigMap") }

func claimKind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
}

// ownedKinds are cached as metadata: their resource versions tell whether they
// are still as they were applied, and more is not needed.
func ownedKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		configMapKind(),
		serviceKind(),
		serviceAccountKind(),
		disruptionBudgetKind(),
		networkPolicyKind(),
	}
}

func rawObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

func rawList(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	return list
}

func metadataObject(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

func metadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	return list
}
