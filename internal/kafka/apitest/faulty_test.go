package apitest

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errCrash is what the operator sees when it has crashed: nothing it wants to
// write arrives any more.
var errCrash = errors.New("the operator has crashed")

// faultyClient counts the operator's writes and lets it crash at one of them.
type faultyClient struct {
	client.Client

	writes int
	// podsDeleted are the names of the pods that it deleted, in order.
	podsDeleted []string
	// crashAt is the number of the write from which on nothing arrives; 0 means
	// that the operator does not crash.
	crashAt int
	// deleted is told of each pod whose deletion arrived.
	deleted func(name string)
}

func (c *faultyClient) count(write func() error) error {
	if c.crashAt > 0 && c.writes+1 >= c.crashAt {
		return errCrash
	}
	if err := write(); err != nil {
		return err
	}
	c.writes++
	return nil
}

func (c *faultyClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.count(func() error { return c.Client.Create(ctx, obj, opts...) })
}

func (c *faultyClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	err := c.count(func() error { return c.Client.Delete(ctx, obj, opts...) })
	if err != nil {
		return err
	}
	if _, isPod := obj.(*corev1.Pod); isPod {
		c.podsDeleted = append(c.podsDeleted, obj.GetName())
		c.deleted(obj.GetName())
	}
	return nil
}

func (c *faultyClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.count(func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c *faultyClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.count(func() error { return c.Client.Apply(ctx, obj, opts...) })
}

func (c *faultyClient) Status() client.SubResourceWriter {
	return faultyStatus{SubResourceWriter: c.Client.Status(), client: c}
}

type faultyStatus struct {
	client.SubResourceWriter

	client *faultyClient
}

func (s faultyStatus) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.client.count(func() error { return s.SubResourceWriter.Apply(ctx, obj, opts...) })
}
