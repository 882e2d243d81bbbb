package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manifest is a list of objects as a person writes them.
type Manifest []*unstructured.Unstructured

// Example reads a manifest of the folder examples.
func (k *Kubernetes) Example(name string) (Manifest, error) {
	data, err := os.ReadFile(filepath.Join(k.Root, "examples", name))
	if err != nil {
		return nil, fmt.Errorf("reading example: %w", err)
	}
	return ParseManifest(data)
}

// ParseManifest reads YAML documents.
func ParseManifest(data []byte) (Manifest, error) {
	var manifest Manifest
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return manifest, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading manifest: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("reading manifest: %w", err)
		}
		if len(object.Object) > 0 {
			manifest = append(manifest, object)
		}
	}
}

// Find returns the object of a kind with a name.
func (m Manifest) Find(kind, name string) (*unstructured.Unstructured, error) {
	for _, object := range m {
		if object.GetKind() == kind && object.GetName() == name {
			return object, nil
		}
	}
	return nil, fmt.Errorf("manifest has no %s %s", kind, name)
}

// Set changes a field of the object of a kind with a name.
func (m Manifest) Set(kind, name string, value any, path ...string) error {
	object, err := m.Find(kind, name)
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		return fmt.Errorf("changing %s %s: %w", kind, name, err)
	}
	return nil
}

// SetImage puts an image into the containers of all Deployments.
func (m Manifest) SetImage(image string) error {
	path := []string{"spec", "template", "spec", "containers"}
	for _, object := range m {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, path...)
		if err != nil {
			return fmt.Errorf("reading containers of %s: %w", object.GetName(), err)
		}
		for _, container := range containers {
			if fields, ok := container.(map[string]any); ok {
				fields["image"] = image
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, containers, path...); err != nil {
			return fmt.Errorf("changing containers of %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// Apply applies a manifest in a namespace, as "kubectl apply --server-side" does.
func (k *Kubernetes) Apply(ctx context.Context, namespace string, manifest Manifest) error {
	for _, object := range manifest {
		intent := object.DeepCopy()
		intent.SetNamespace(namespace)
		if err := k.WithWatch.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), owner, client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// CreateNamespace makes a namespace, or takes one that is there.
func (k *Kubernetes) CreateNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := k.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// atOnce is how long pods get that nobody will start again.
const atOnce = client.GracePeriodSeconds(1)

// DeleteNamespace deletes a namespace and waits until it is gone. Its pods do not
// get the time to say good-bye to each other.
func (k *Kubernetes) DeleteNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreNotFound(k.Delete(ctx, namespace)); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	if err := k.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(name), atOnce); err != nil {
		return fmt.Errorf("ending pods of namespace %s: %w", name, err)
	}
	err := k.Follow(ctx, &corev1.NamespaceList{}, func(left Objects) (bool, error) { return len(left) == 0, nil },
		client.MatchingFields{"metadata.name": name})
	if err != nil {
		return fmt.Errorf("waiting until namespace %s is gone: %w", name, err)
	}
	return nil
}

// Annotate sets annotations of an object as a person does; an empty value takes
// one away.
func (k *Kubernetes) Annotate(ctx context.Context, object client.Object, annotations map[string]string) error {
	values := map[string]any{}
	for name, value := range annotations {
		values[name] = value
		if value == "" {
			values[name] = nil
		}
	}
	return k.MergePatch(ctx, object, map[string]any{"metadata": map[string]any{"annotations": values}})
}
