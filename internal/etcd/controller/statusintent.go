package controller

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusIntent is the status of a resource as it is applied. wanted points to it.
func statusIntent(kind schema.GroupVersionKind, of metav1.Object, wanted any) (runtime.ApplyConfiguration, error) {
	object, err := statusObject(kind, of, wanted)
	if err != nil {
		return nil, err
	}
	return client.ApplyConfigurationFromUnstructured(object), nil
}

// recordIntent is as statusIntent, of a status that the next reconcile acts on: it is not applied to a resource that has
// changed since it was read, as by another operator that has led meanwhile.
func recordIntent(kind schema.GroupVersionKind, of metav1.Object, wanted any) (runtime.ApplyConfiguration, error) {
	object, err := statusObject(kind, of, wanted)
	if err != nil {
		return nil, err
	}
	object.SetResourceVersion(of.GetResourceVersion())
	return client.ApplyConfigurationFromUnstructured(object), nil
}

func statusObject(kind schema.GroupVersionKind, of metav1.Object, wanted any) (*unstructured.Unstructured, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of %s %s: %w", kind.Kind, of.GetName(), err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(of.GetNamespace())
	object.SetName(of.GetName())
	object.SetUID(of.GetUID())
	return object, nil
}
