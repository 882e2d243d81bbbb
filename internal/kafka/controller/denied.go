package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// Whose watches are denied, and what follows from that for a Kafka.
const (
	clusterOperator = "the cluster operator"
	whileDenied     = "Changes are not noticed: the cluster is looked at every 30 seconds, and its conditions may be old."
)

// watchedKinds are the kinds whose watches have a cluster reconciled.
func (r *Reconciler) watchedKinds() []schema.GroupVersionKind {
	return append(r.owned(), kafkaKind(), poolKind(), podSetVersionKind(), secretKind(), claimKind(), corev1.SchemeGroupVersion.WithKind("Pod"))
}

// observeDenied notes which watches are denied that the cluster depends on.
func (r *Reconciler) observeDenied(o *observation) {
	var watched []schema.GroupResource
	for _, kind := range r.watchedKinds() {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		watched = append(watched, resource.GroupResource())
	}
	if slices.ContainsFunc(kinds(), o.hasIssuer) {
		watched = append(watched, model.CertificatesResource())
	}
	o.denied = r.options.Watches.Denied(o.kafka.Namespace, watched...)
}

func (o *observation) hasIssuer(kind authorities.Kind) bool {
	_, _, uses := model.CertManagerIssuer(o.caSpec(kind))
	return uses
}

// retryWhileDenied is when a cluster is looked at next of which no watch tells; zero when all do.
func (o *observation) retryWhileDenied() time.Time {
	if len(o.denied) == 0 {
		return time.Time{}
	}
	return o.now.Add(kube.Unwatched)
}

// deniedWatch is the object of the warning about a denied watch: each resource has its own.
func deniedWatch(denial *watches.DeniedError) object {
	return object{part: denial.Resource.String()}
}

// kafkasByWatches has all Kafkas reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) kafkasByWatches() source.Source {
	return r.options.Watches.Dependents(func(ctx context.Context) ([]types.NamespacedName, error) {
		list := metadataList(kafkaKind())
		if err := r.options.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing Kafkas: %w", err)
		}
		names := make([]types.NamespacedName, 0, len(list.Items))
		for i := range list.Items {
			names = append(names, client.ObjectKeyFromObject(&list.Items[i]))
		}
		return names, nil
	})
}
