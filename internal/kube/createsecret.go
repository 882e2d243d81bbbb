package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CreateSecret creates the Secret that an intent is about, whole, as a pod that mounts it must find it, and fails with AlreadyExists if
// there is one: a server-side apply has no such precondition, and would take it over. IsApplied takes it for applied.
func CreateSecret(ctx context.Context, writer client.Client, owner client.FieldOwner, intent *coreac.SecretApplyConfiguration) (*corev1.Secret, error) {
	data, err := json.Marshal(intent)
	if err != nil {
		return nil, fmt.Errorf("encoding a Secret to create: %w", err)
	}
	secret := &corev1.Secret{}
	if err := json.Unmarshal(data, secret); err != nil {
		return nil, fmt.Errorf("decoding a Secret to create: %w", err)
	}
	if err := writer.Create(ctx, secret, owner); err != nil {
		return nil, fmt.Errorf("creating Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return secret, nil
}

// OwnAsApplied makes what an owner has created of a Secret its own by apply, so that an apply that follows can remove it. It writes
// no field but the managed ones, and nothing where there is nothing to do.
func OwnAsApplied(ctx context.Context, writer client.Client, owner client.FieldOwner, secret *corev1.Secret) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(secret, sets.New(string(owner)), string(owner))
	if err != nil {
		return fmt.Errorf("reading the managed fields of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if len(patch) == 0 {
		return nil
	}
	if err := writer.Patch(ctx, secret, client.RawPatch(types.JSONPatchType, patch), owner); err != nil {
		return fmt.Errorf("owning what was created of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
