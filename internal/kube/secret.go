package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretIntent is what a Secret shall hold.
type SecretIntent struct {
	Namespace, Name string
	// Labels and Annotations are added to those that others have set.
	Labels, Annotations map[string]string
	// RemoveLabels and RemoveAnnotations are removed in the same write, even where another client has set
	// them.
	RemoveLabels, RemoveAnnotations []string
	// Owners are added to the owner references that are there. Unowned tells that
	// references of these owners are to go instead.
	Owners  []metav1.OwnerReference
	Unowned []types.UID
	// Data is complete: any other key is removed.
	Data map[string][]byte
}

// WriteSecret makes a Secret what intent says, in one write and only from its observed state; nil means
// that there was none. If another client has written in between, the API server returns a Conflict or
// AlreadyExists error. Nothing is written when nothing differs.
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
	wanted := observed.DeepCopy()
	intent.change(wanted)
	if equality.Semantic.DeepEqual(observed, wanted) {
		return *observed, nil
	}
	anonymous := observed.DeepCopy()
	anonymous.UID = "" // the patch has it then, and is for this instance alone
	if err := writer.Patch(ctx, wanted, client.MergeFromWithOptions(anonymous, client.MergeFromWithOptimisticLock{}), owner); err != nil {
		return corev1.Secret{}, fmt.Errorf("writing Secret %s/%s: %w", intent.Namespace, intent.Name, err)
	}
	return *wanted, nil
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

// change makes a Secret what the intent says.
func (i SecretIntent) change(secret *corev1.Secret) {
	secret.Data = i.Data
	secret.Labels = changed(secret.Labels, i.Labels, i.RemoveLabels)
	secret.Annotations = changed(secret.Annotations, i.Annotations, i.RemoveAnnotations)
	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return slices.Contains(i.Unowned, o.UID) })
	for _, owner := range i.Owners {
		if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			secret.OwnerReferences = append(secret.OwnerReferences, owner)
		}
	}
}

// changed are entries with the intended ones, and without those that are to go.
func changed(entries, intended map[string]string, removed []string) map[string]string {
	wanted := map[string]string{}
	maps.Copy(wanted, entries)
	maps.DeleteFunc(wanted, func(key, _ string) bool { return slices.Contains(removed, key) })
	maps.Copy(wanted, intended)
	return wanted
}
