package kubetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Any stands for a value that differs from run to run.
const Any = "*"

// Marks are the labels and annotations of an object.
type Marks struct {
	Labels, Annotations map[string]string
}

// CheckMarks compares the marks of all objects of a namespace, of whatever kind, with those that are wanted. A row is named after
// kind and name of its object. An object without a row is an error, and so is a row without an object.
func CheckMarks(t *testing.T, config *rest.Config, namespace string, want map[string]Marks) {
	t.Helper()
	got, err := marksOf(t.Context(), config, namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range slices.Sorted(maps.Keys(got)) {
		row, listed := want[object]
		if !listed {
			t.Errorf("%s has no row in the table: %+v", object, got[object])
			continue
		}
		if diff := cmp.Diff(row.filled(got[object]), got[object]); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", object, diff)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(want)) {
		if _, exists := got[object]; !exists {
			t.Errorf("%s does not exist", object)
		}
	}
}

// filled has the values of an object where any value is wanted.
func (m Marks) filled(from Marks) Marks {
	fill := func(want, got map[string]string) map[string]string {
		filled := map[string]string{}
		for key, value := range want {
			filled[key] = value
			if value == Any && got[key] != "" {
				filled[key] = got[key]
			}
		}
		return filled
	}
	return Marks{Labels: fill(m.Labels, from.Labels), Annotations: fill(m.Annotations, from.Annotations)}
}

// marksOf lists every kind that the API server has, so that a new one is not forgotten. Events are left
// out, because they have no owner.
func marksOf(ctx context.Context, config *rest.Config, namespace string) (map[string]Marks, error) {
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("asking for kinds: %w", err)
	}
	lists, err := discovered.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("asking for kinds: %w", err)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading metadata: %w", err)
	}
	all := map[string]Marks{}
	var failed []error
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		failed = append(failed, err)
		for _, resource := range list.APIResources {
			if resource.Kind == "Event" || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			objects, err := client.Resource(group.WithResource(resource.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				failed = append(failed, fmt.Errorf("reading all of kind %s: %w", resource.Kind, err))
				continue
			}
			for _, object := range objects.Items {
				all[resource.Kind+" "+object.Name] = Marks{orEmpty(object.Labels), orEmpty(object.Annotations)}
			}
		}
	}
	return all, errors.Join(failed...)
}

func orEmpty(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}
