package kubetest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Indexed lists objects by a field that the API server does not know, as the cache of a manager with an index does.
type Indexed struct {
	client.Client

	// Field is the name of the index, and Of are the values by which an object is found.
	Field string
	Of    client.IndexerFunc
}

// List fills in the objects that have the value of the field, if the options name one.
func (c Indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	value, isIndexed := "", false
	plain := slices.DeleteFunc(slices.Clone(opts), func(option client.ListOption) bool {
		fields, is := option.(client.MatchingFields)
		if is {
			value, isIndexed = fields[c.Field]
		}
		return is && isIndexed
	})
	if err := c.Client.List(ctx, list, plain...); err != nil || !isIndexed {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("looking for objects with %s %q: %w", c.Field, value, err)
	}
	return meta.SetList(list, slices.DeleteFunc(items, func(item runtime.Object) bool {
		object, is := item.(client.Object)
		return !is || !slices.Contains(c.Of(object), value)
	}))
}
