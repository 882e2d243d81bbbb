package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reserve creates the Secret that an intent is about, to be applied to exactly as it is returned, and fails with AlreadyExists if there
// is one: a server-side apply has no such precondition, and would take it over. It writes the type and the owners alone, because what is
// created and not applied cannot be removed by a later apply.
func Reserve(ctx context.Context, writer client.Client, owner client.FieldOwner, intent *coreac.SecretApplyConfiguration) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: *intent.Namespace, Name: *intent.Name}, Type: *intent.Type}
	for _, of := range intent.OwnerReferences {
		secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
			APIVersion: *of.APIVersion, Kind: *of.Kind, Name: *of.Name, UID: *of.UID,
			Controller: of.Controller, BlockOwnerDeletion: of.BlockOwnerDeletion,
		})
	}
	if err := writer.Create(ctx, secret, owner); err != nil {
		return nil, fmt.Errorf("creating Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return secret, nil
}
