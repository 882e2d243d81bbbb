package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/csaupgrade"
)

// IsApplied reports whether a Secret is already what the intent of a field owner says: no field of it is missing,
// differs or was taken over by another owner, and no field is left from an earlier intent. What the owner has created counts
// as applied. The intent names neither UID nor resource version.
func IsApplied(secret *corev1.Secret, intent *coreac.SecretApplyConfiguration, owner string) (bool, error) {
	owned := secret.DeepCopy()
	if err := csaupgrade.UpgradeManagedFields(owned, sets.New(owner), owner); err != nil {
		return false, fmt.Errorf("reading who has created Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	applied, err := coreac.ExtractSecret(owned, owner)
	if err != nil {
		return false, fmt.Errorf("reading the managed fields of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return equality.Semantic.DeepEqual(applied, intent), nil
}
