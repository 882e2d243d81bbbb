package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Delete deletes exactly the observed instance of an object: another one of the
// same name is left alone. An object that is gone already is no error.
func Delete(ctx context.Context, writer client.Writer, observed client.Object) error {
	uid := observed.GetUID()
	err := writer.Delete(ctx, observed,
		client.Preconditions(metav1.Preconditions{UID: &uid}),
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s/%s (uid %s): %w", observed.GetNamespace(), observed.GetName(), uid, err)
	}
	return nil
}

// DeleteUnchanged deletes an object only as it was observed. If it was written since, the API server
// returns a Conflict error.
func DeleteUnchanged(ctx context.Context, writer client.Writer, observed client.Object) error {
	uid, version := observed.GetUID(), observed.GetResourceVersion()
	err := writer.Delete(ctx, observed,
		client.Preconditions(metav1.Preconditions{UID: &uid, ResourceVersion: &version}),
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s/%s (uid %s) of version %s: %w", observed.GetNamespace(), observed.GetName(), uid, version, err)
	}
	return nil
}

// IgnoreEnding returns nil for what a namespace refuses because it is being deleted,
// which nothing can stop: nothing is needed there any more. Other errors stay.
func IgnoreEnding(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
