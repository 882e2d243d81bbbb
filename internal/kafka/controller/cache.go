package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// What the cache holds stays in memory for as long as the operator runs. It holds only
// objects of clusters, and only the parts that are read from it. Other objects may be of
// any size and may contain keys.

// kafkaUserKind is the kind that the Secrets of users are labelled with. A cluster may
// have many thousands of them, and nothing of the cluster follows from one.
const kafkaUserKind = "KafkaUser"

// CacheOptions limits the cache to objects of Kafka clusters in the namespaces (all when
// there are none). Of Secrets and pod sets it holds metadata; their content is read by name.
// A read of a kind without a watch fails, so that it cannot load all its objects into memory.
func CacheOptions(namespaces []string) cache.Options {
	metadata := ofCluster(cacheTransform(stripMetadata))
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cacheTransform(stripMetadata),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   ofCluster(cacheTransform(stripPod)),
			&corev1.ConfigMap{}:             metadata,
			&corev1.Service{}:               metadata,
			&corev1.ServiceAccount{}:        metadata,
			&policyv1.PodDisruptionBudget{}: metadata,
			&networkingv1.NetworkPolicy{}:   metadata,
			&corev1.PersistentVolumeClaim{}: ofCluster(cacheTransform(stripClaim)),
			&appsv1.Deployment{}:            ofCluster(cacheTransform(stripDeployment)),
			&rbacv1.Role{}:                  metadata,
			&rbacv1.RoleBinding{}:           metadata,
			&corev1.Secret{}: {
				Label:     selecting(model.ClusterLabel, selection.Exists).Add(ofNoUser()...),
				Transform: cacheTransform(stripSecret),
			},
			// One that has lost its label has pods all the same.
			&podsetv1.StrimziPodSet{}: {Transform: cacheTransform(stripPodSet)},
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

// ofCluster is the caching of what carries the label of a cluster.
func ofCluster(transform toolscache.TransformFunc) cache.ByObject {
	return cache.ByObject{Label: selecting(model.ClusterLabel, selection.Exists), Transform: transform}
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
