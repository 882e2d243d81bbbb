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

// faultyClient counts the operator's writes and lets it crash after some of them.
type faultyClient struct {
	client.Client

	writes int
	// podsDeleted counts the pods among them.
	podsDeleted int
	// crashAfter is the number of writes after which nothing arrives; 0 means
	// that the operator does not crash.
	crashAfter int
	// afterWrite is called after each write that arrived.
	afterWrite func()
}

func (c *faultyClient) count(write func() error) error {
	if c.crashAfter > 0 && c.writes >= c.crashAfter {
		return errCrash
	}
	if err := write(); err != nil {
		return err
	}
	c.writes++
	if c.afterWrite != nil {
		c.afterWrite()
	}
	return nil
}

func (c *faultyClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.count(func() error { return c.Client.Create(ctx, obj, opts...) })
}

func (c *faultyClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.count(func() error {
		if _, isPod := obj.(*corev1.Pod); isPod {
			c.podsDeleted++
		}
		return c.Client.Delete(ctx, obj, opts...)
	})
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
