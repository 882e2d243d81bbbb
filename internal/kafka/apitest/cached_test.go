package apitest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/controller"
)

// cachedClient shows of each object what the operator's cache keeps of it.
type cachedClient struct{ client.Client }

// Get reads an object.
func (c cachedClient) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, name, into, opts...); err != nil {
		return err
	}
	kind, err := c.GroupVersionKindFor(into)
	if err != nil {
		return err
	}
	return c.keep(kind, into)
}

// List reads a list.
func (c cachedClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, into, opts...); err != nil {
		return err
	}
	kind, err := c.GroupVersionKindFor(into)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return meta.EachListItem(into, func(object runtime.Object) error { return c.keep(kind, object) })
}

// keep leaves of an object what the cache does.
func (c cachedClient) keep(kind schema.GroupVersionKind, object runtime.Object) error {
	switch object.(type) {
	case *corev1.Secret:
		return nil // is not read through the cache
	case *podsetv1.StrimziPodSet:
		return fmt.Errorf("the cache holds the metadata of sets, and no %T", object)
	}
	options := controller.CacheOptions(nil)
	transform := options.DefaultTransform
	for of, by := range options.ByObject {
		known, err := c.GroupVersionKindFor(of)
		if err != nil {
			return err
		}
		if known == kind {
			transform = by.Transform
		}
	}
	left, err := transform(object)
	if err != nil {
		return err
	}
	overwrite(object, left)
	return nil
}
