package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretIntent is what a Secret shall hold.
type SecretIntent struct {
	Namespace, Name string
	// Labels and Annotations are added to those that others have set.
	Labels, Annotations map[string]string
	// RemoveLabels and RemoveAnnotations go whoever has set them, in the same write.
	RemoveLabels, RemoveAnnotations []string
	// Owners are added to the owner references that are there. Unowned tells that
	// references of these owners are to go instead.
	Owners  []metav1.OwnerReference
	Unowned []types.UID
	// Data is complete: any other key is removed.
	Data map[string][]byte
}

// WriteSecret makes a Secret what intent says, in one write and only from the
// state in which it was observed; observed is nil when there was none. When
// somebody else has written in between, that is a Conflict or AlreadyExists error
// of the API server. Nothing is written when nothing differs.
//
// It is not a server-side apply because Secrets with keys are read past the cache
// anyway, because what a user has put in must go in the same write in which it
// is served, and because two operators must never mix two keys.
func WriteSecret(ctx context.Context, writer client.Client, owner client.FieldOwner,
	observed *corev1.Secret, intent SecretIntent,
) (corev1.Secret, error) {
	if observed == nil {
		return createSecret(ctx, writer, owner, intent)
	}
	patch := intent.difference(observed)
	if len(patch) == 0 {
		return *observed, nil
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = observed.UID, observed.ResourceVersion
	patch["metadata"] = metadata
	data, err := json.Marshal(patch)
	if err != nil {
		return corev1.Secret{}, fmt.Errorf("encoding a change of Secret %s/%s: %w", intent.Namespace, intent.Name, err)
	}
	written := observed.DeepCopy()
	if err := writer.Patch(ctx, written, client.RawPatch(types.MergePatchType, data), owner); err != nil {
		return corev1.Secret{}, fmt.Errorf("writing Secret %s/%s: %w", intent.Namespace, intent.Name, err)
	}
	return *written, nil
}

func createSecret(ctx context.Context, writer client.Client, owner client.FieldOwner, intent SecretIntent) (corev1.Secret, error) {
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: intent.Namespace, Name: intent.Name,
			Labels: intent.Labels, Annotations: intent.Annotations, OwnerReferences: intent.Owners,
		},
		Type: corev1.SecretTypeOpaque,
		Data: intent.Data,
	}
	if err := writer.Create(ctx, &secret, owner); err != nil {
		return corev1.Secret{}, fmt.Errorf("creating Secret %s/%s: %w", intent.Namespace, intent.Name, err)
	}
	return secret, nil
}

// difference returns the merge patch from observed to the intent, empty when
// there is none.
func (i SecretIntent) difference(observed *corev1.Secret) map[string]any {
	patch := map[string]any{}
	if data := dataDifference(observed.Data, i.Data); len(data) > 0 {
		patch["data"] = data
	}
	metadata := map[string]any{}
	if labels := changed(observed.Labels, i.Labels, i.RemoveLabels); len(labels) > 0 {
		metadata["labels"] = labels
	}
	if annotations := changed(observed.Annotations, i.Annotations, i.RemoveAnnotations); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if owners, differ := i.owners(observed.OwnerReferences); differ {
		metadata["ownerReferences"] = owners
	}
	if len(metadata) > 0 {
		patch["metadata"] = metadata
	}
	return patch
}

func dataDifference(observed, intended map[string][]byte) map[string]any {
	data := map[string]any{}
	for key, value := range intended {
		if old, there := observed[key]; !there || !bytes.Equal(old, value) {
			data[key] = value
		}
	}
	for key := range observed {
		if _, kept := intended[key]; !kept {
			data[key] = nil
		}
	}
	return data
}

// changed is what differs from the intended values, and nil for those that are to go.
func changed(observed, intended map[string]string, removed []string) map[string]any {
	differing := map[string]any{}
	for _, key := range removed {
		if _, there := observed[key]; there {
			differing[key] = nil
		}
	}
	for key, value := range intended {
		if old, there := observed[key]; !there || old != value {
			differing[key] = value
		}
	}
	return differing
}

// owners returns the owner references after the write and whether they differ
// from those that are there.
func (i SecretIntent) owners(observed []metav1.OwnerReference) ([]metav1.OwnerReference, bool) {
	wanted := map[types.UID]metav1.OwnerReference{}
	for _, owner := range i.Owners {
		wanted[owner.UID] = owner
	}
	unwanted := map[types.UID]bool{}
	for _, uid := range i.Unowned {
		unwanted[uid] = true
	}
	missing := maps.Clone(wanted)
	kept := make([]metav1.OwnerReference, 0, len(observed)+len(wanted))
	for _, owner := range observed {
		delete(missing, owner.UID)
		if !unwanted[owner.UID] {
			kept = append(kept, owner)
		}
	}
	differ := len(kept) != len(observed) || len(missing) > 0
	for _, owner := range i.Owners {
		if _, add := missing[owner.UID]; add {
			kept = append(kept, owner)
		}
	}
	return kept, differ
}
