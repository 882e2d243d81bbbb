package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const managedByLabel = "app.kubernetes.io/managed-by"

// Reserve creates the Secret that an intent is about, to be applied to exactly as it is returned, and fails with AlreadyExists if there
// is one: a server-side apply has no such precondition, and would take it over. It writes type, owners and who manages it alone, because
// what is created and not applied cannot be removed by a later apply. It writes nothing if the API server would reject the intent.
func Reserve(ctx context.Context, writer client.Client, owner client.FieldOwner, intent *coreac.SecretApplyConfiguration) (*corev1.Secret, error) {
	data, err := json.Marshal(intent)
	if err != nil {
		return nil, fmt.Errorf("encoding a Secret to create: %w", err)
	}
	whole := &corev1.Secret{}
	if err := json.Unmarshal(data, whole); err != nil {
		return nil, fmt.Errorf("decoding a Secret to create: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: whole.Namespace, Name: whole.Name, OwnerReferences: whole.OwnerReferences},
		Type:       whole.Type,
	}
	if manager, is := whole.Labels[managedByLabel]; is {
		secret.Labels = map[string]string{managedByLabel: manager} // by which it is found after a crash
	}
	if err := writer.Create(ctx, whole, owner, client.DryRunAll); err != nil {
		return nil, fmt.Errorf("trying to create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if err := writer.Create(ctx, secret, owner); err != nil {
		return nil, fmt.Errorf("creating Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return secret, nil
}
