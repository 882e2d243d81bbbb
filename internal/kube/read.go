package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads an object; nil and false when there is none.
func Read[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key client.ObjectKey) (P, bool, error) {
	object := P(new(T))
	err := reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading %T %s: %w", object, key, err)
	default:
		return object, true, nil
	}
}
