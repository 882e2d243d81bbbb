package controller

import (
	"context"
	"reflect"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// writePoolStatuses writes what the pools' own statuses say of their nodes.
func (r *Reconciler) writePoolStatuses(ctx context.Context, p *pass) error {
	for i := range p.pools {
		resource := p.pools[i]
		pool, found := p.cluster.Pool(resource.Name)
		if !found {
			continue
		}
		status := p.cluster.PoolStatus(pool)
		status.ObservedGeneration = resource.Generation
		status.Conditions = conditionsSince(poolWarnings(resource), resource.Status.Conditions, p.now)
		if equalPoolStatus(status, resource.Status) {
			continue
		}
		if err := r.applyStatus(ctx, kafkav1.KindKafkaNodePool, &resource.KafkaNodePool, &status); err != nil {
			return err
		}
	}
	return nil
}

func poolWarnings(resource *pool) []wanted {
	found := fields.InSpec[kafkav1.KafkaNodePool](resource.written)
	return fieldWarnings("KafkaNodePool "+resource.Namespace+"/"+resource.Name, found)
}

// equalPoolStatus takes an empty list for an absent one, as the API server does.
func equalPoolStatus(a, b kafkav1.KafkaNodePoolStatus) bool {
	if len(a.Conditions) == 0 && len(b.Conditions) == 0 {
		a.Conditions, b.Conditions = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
