package apitest

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/controller"
)

// cachedClient shows of pod sets what the operator's cache keeps.
type cachedClient struct{ client.Client }

// Get reads an object.
func (c cachedClient) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, name, into, opts...); err != nil {
		return err
	}
	if set, is := into.(*podsetv1.StrimziPodSet); is {
		return keep(set)
	}
	return nil
}

// List reads a list.
func (c cachedClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, into, opts...); err != nil {
		return err
	}
	if sets, is := into.(*podsetv1.StrimziPodSetList); is {
		return keepAll(sets.Items)
	}
	return nil
}

func keepAll(sets []podsetv1.StrimziPodSet) error {
	for i := range sets {
		if err := keep(&sets[i]); err != nil {
			return err
		}
	}
	return nil
}

// keep leaves of a pod set what the cache does.
func keep(set *podsetv1.StrimziPodSet) error {
	for object, options := range controller.CacheOptions(nil).ByObject {
		if _, ofSets := object.(*podsetv1.StrimziPodSet); !ofSets {
			continue
		}
		left, err := options.Transform(set.DeepCopy())
		if err != nil {
			return err
		}
		overwrite(set, left)
		return nil
	}
	return fmt.Errorf("the cache holds no %T", set)
}
