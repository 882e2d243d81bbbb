// Package departed watches what an operator of one Kafka may still have something for although its label names another Kafka now,
// or none: the label may have changed while the operator did not run.
package departed

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/finalizers"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
)

// Source yields the objects of a kind of kafka.strimzi.io in the namespace of a cluster whose label does not name it, and which
// have its finalizer. Their metadata is kept in a cache of its own.
func Source(mgr ctrl.Manager, cluster types.NamespacedName, kind string, kept finalizers.Kind) (source.Source, error) {
	ofOthers, err := labels.NewRequirement(kafkamodel.ClusterLabel, selection.NotEquals, []string{cluster.Name})
	if err != nil {
		return nil, fmt.Errorf("selecting %ss of other clusters than %s: %w", kind, cluster, err)
	}
	others, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces:    map[string]cache.Config{cluster.Namespace: {}},
		DefaultLabelSelector: labels.NewSelector().Add(*ofOthers),
		DefaultTransform:     finalizersAlone,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch %ss of other clusters: %w", kind, err)
	}
	if err := mgr.Add(others); err != nil {
		return nil, fmt.Errorf("preparing to watch %ss of other clusters: %w", kind, err)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kafkav1.GroupVersion.WithKind(kind))
	return source.Kind(others, object, &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{},
		predicate.NewTypedPredicateFuncs(func(object *metav1.PartialObjectMetadata) bool {
			return kept.IsKeptFor(object, cluster.Name)
		})), nil
}

// finalizersAlone leaves out what is not needed to tell for which Kafka an object is kept.
func finalizersAlone(object any) (any, error) {
	if kept, is := object.(client.Object); is {
		kept.SetManagedFields(nil)
		kept.SetAnnotations(nil)
		kept.SetOwnerReferences(nil)
	}
	return object, nil
}
