package certmanager

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Sweep deletes the Secrets that cert-manager has written for an owner that is gone, and that refer to nothing: it writes some
// while the operator does not run, and may write one again just after all were deleted. Those of an owner whose objects are kept
// stay. The caller knows that no owner with the selector exists.
func (l Live) Sweep(ctx context.Context, namespace string, selector labels.Selector) error {
	found, err := l.Secrets(ctx, namespace, selector)
	if err != nil {
		return err
	}
	var failed []error
	for s := range found {
		secret := &found[s]
		of := secret.Annotations[CertificateNameAnnotation]
		if secret.Labels[OwnerLabel] == "" || len(secret.OwnerReferences) > 0 || secret.Name != of+SecretSuffix {
			continue
		}
		err := l.Server.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).
			Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("deleting Secret %s/%s of an owner that is gone: %w", namespace, secret.Name, err))
		}
	}
	return errors.Join(failed...)
}
