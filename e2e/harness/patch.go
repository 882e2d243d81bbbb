package harness

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MergePatch changes fields of an object, which needs only its name.
func (k *Kubernetes) MergePatch(ctx context.Context, object client.Object, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding patch of %s: %w", object.GetName(), err)
	}
	if err := k.Patch(ctx, object, client.RawPatch(types.MergePatchType, data), owner); err != nil {
		return fmt.Errorf("changing %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// patchStatus changes fields of the status of an object, which needs only its name.
func (k *Kubernetes) patchStatus(ctx context.Context, object client.Object, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding patch of the status of %s: %w", object.GetName(), err)
	}
	if err := k.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, data), owner); err != nil {
		return fmt.Errorf("changing the status of %T %s: %w", object, object.GetName(), err)
	}
	return nil
}
