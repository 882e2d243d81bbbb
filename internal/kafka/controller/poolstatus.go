package controller

import (
	"context"
	"reflect"
	"slices"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// writePoolStatuses writes what the pools' own statuses say of their nodes.
func (r *Reconciler) writePoolStatuses(ctx context.Context, c *desired) error {
	for i := range c.pools {
		resource := c.pools[i]
		pool, found := c.cluster.Pool(resource.Name)
		if !found {
			continue
		}
		status := c.cluster.PoolStatus(pool)
		status.ObservedGeneration = resource.Generation
		if err := r.writePoolStatus(ctx, c.observation, resource, status); err != nil {
			return err
		}
	}
	return nil
}

// writePoolWarnings writes what the pools say of themselves while the cluster cannot be built: what is wrong with
// the Kafka hides nothing that is wrong with a pool. What statuses say of nodes stays as it is.
func (r *Reconciler) writePoolWarnings(ctx context.Context, o *observation) error {
	for _, resource := range o.pools {
		if err := r.writePoolStatus(ctx, o, resource, *resource.Status.DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}

// writePoolStatus writes a status with the conditions of the pool, when that differs from the present one.
func (r *Reconciler) writePoolStatus(ctx context.Context, o *observation, resource *pool, status kafkav1.KafkaNodePoolStatus) error {
	status.Conditions = conditionsSince(poolWarnings(resource), resource.Status.Conditions, o.now)
	if equalPoolStatus(status, resource.Status) {
		return nil
	}
	return r.applyStatus(ctx, o, kafkav1.KindKafkaNodePool, &resource.KafkaNodePool, &status)
}

func poolWarnings(resource *pool) []wanted {
	found := fields.InSpec[kafkav1.KafkaNodePool](resource.written)
	found.WithoutEffect = append(found.WithoutEffect, model.IdleStorageFields(resource.Spec.Storage)...)
	slices.Sort(found.WithoutEffect)
	return fieldWarnings("KafkaNodePool "+resource.Namespace+"/"+resource.Name, found)
}

// equalPoolStatus takes an empty list for an absent one, as the API server does.
func equalPoolStatus(a, b kafkav1.KafkaNodePoolStatus) bool {
	if len(a.Conditions) == 0 && len(b.Conditions) == 0 {
		a.Conditions, b.Conditions = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
