package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// What the cache holds stays in memory for as long as the operator runs. It holds what
// belongs to clusters, and of that what is read from it: anything else is somebody
// else's, may be of any size, and may contain keys.

// kafkaUserKind is the kind that the Secrets of users are labelled with. A cluster may
// have many thousands of them, and nothing of the cluster follows from one.
const kafkaUserKind = "KafkaUser"

// CacheOptions limits the cache to what belongs to Kafka clusters in the
// namespaces, all when there are none. Secrets enter it as metadata only, and what
// nobody watches cannot be read from it: a read that was forgotten here must not bring
// all objects of a kind into memory.
func CacheOptions(namespaces []string) cache.Options {
	labelled := cache.ByObject{Label: selecting(model.ClusterLabel, selection.Exists)}
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            keeping(model.OwnKey),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   labelled,
			&corev1.ConfigMap{}:             labelled,
			&corev1.Service{}:               labelled,
			&corev1.ServiceAccount{}:        labelled,
			&corev1.PersistentVolumeClaim{}: labelled,
			&policyv1.PodDisruptionBudget{}: labelled,
			&networkingv1.NetworkPolicy{}:   labelled,
			&appsv1.Deployment{}:            labelled,
			&corev1.Secret{}: {
				Label:     selecting(model.ClusterLabel, selection.Exists).Add(ofNoUser()...),
				Transform: keeping(func(string) bool { return false }),
			},
			&podsetv1.StrimziPodSet{}: {Transform: keepingWriters},
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

// ClientOptions keep Secrets from being read through the cache.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}

// selecting selects by one requirement on a label.
func selecting(label string, operator selection.Operator, values ...string) labels.Selector {
	selector := labels.NewSelector()
	if requirement, err := labels.NewRequirement(label, operator, values); err == nil {
		selector = selector.Add(*requirement)
	}
	return selector
}

// ofNoUser leaves out the Secrets of users.
func ofNoUser() labels.Requirements {
	requirements, _ := selecting(model.KindLabel, selection.NotEquals, kafkaUserKind).Requirements()
	return requirements
}

// keeping drops managed fields, the content of Secrets, and all annotations but those
// that are read: others may hold whole objects, such as what kubectl has applied.
func keeping(annotation func(key string) bool) toolscache.TransformFunc {
	return func(object any) (any, error) {
		metadata, is := object.(metav1.Object)
		if !is {
			return object, nil // a note that one is gone
		}
		metadata.SetManagedFields(nil)
		metadata.SetAnnotations(only(metadata.GetAnnotations(), annotation))
		if secret, whole := object.(*corev1.Secret); whole {
			secret.Data, secret.StringData = nil, nil
		}
		return object, nil
	}
}

// only are the entries with the keys that are kept, nil if there are none.
func only(entries map[string]string, kept func(key string) bool) map[string]string {
	var left map[string]string
	for key, value := range entries {
		if kept(key) {
			if left == nil {
				left = map[string]string{}
			}
			left[key] = value
		}
	}
	return left
}

// keepingWriters keeps, of a pod set that this operator has written, who else has, and all
// annotations but the copy of the whole that kubectl makes: they are written back when the
// set is taken apart. Any other set is kept as no more than that it exists.
func keepingWriters(object any) (any, error) {
	set, is := object.(*podsetv1.StrimziPodSet)
	if !is {
		return object, nil
	}
	if !kube.Applied(set, fieldOwner) {
		return mention(set), nil
	}
	writers := make([]metav1.ManagedFieldsEntry, 0, len(set.ManagedFields))
	for _, entry := range set.ManagedFields {
		writers = append(writers, metav1.ManagedFieldsEntry{
			Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource,
		})
	}
	set.ManagedFields = writers
	set.Annotations = only(set.Annotations, func(key string) bool { return key != corev1.LastAppliedConfigAnnotation })
	return set, nil
}

// mention is what a cluster is told of a pod set of somebody else's: its name, and to whom
// it says that it belongs. That it describes no pods does not mean that it has none, so
// that nothing but its existence is concluded from it.
func mention(set *podsetv1.StrimziPodSet) *podsetv1.StrimziPodSet {
	return &podsetv1.StrimziPodSet{
		TypeMeta: set.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name, Namespace: set.Namespace, UID: set.UID,
			ResourceVersion: set.ResourceVersion, Generation: set.Generation,
			CreationTimestamp: set.CreationTimestamp, DeletionTimestamp: set.DeletionTimestamp,
			Labels:          only(set.Labels, func(key string) bool { return key == model.ClusterLabel }),
			OwnerReferences: set.OwnerReferences,
		},
	}
}
