package operate

import (
	"context"
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kube"
)

// Statuses writes the statuses of resources by server-side apply as one field owner.
type Statuses struct {
	writer  client.Client
	applier *kube.Applier
	// written are the digests of the statuses that were written last: the cache shows one a moment after that.
	written Known[resource, [sha256.Size]byte]
}

type resource struct {
	kind string
	name types.NamespacedName
}

// NewStatuses returns Statuses that write through writer as the field owner.
func NewStatuses(writer client.Client, owner string) *Statuses {
	return &Statuses{writer: writer, applier: kube.NewApplier(writer, owner)}
}

// Apply writes a status unless the resource has it, and reports whether it did. before is the status that was read;
// both are pointers to the same type.
func (s *Statuses) Apply(ctx context.Context, of client.Object, before, wanted any) (bool, error) {
	return s.apply(ctx, of, "", before, wanted)
}

// Record is as Apply, of a status that the next reconcile acts on: writing it to a resource that has changed since it was
// read, as by another operator that has led meanwhile, is a Conflict error of the API server.
func (s *Statuses) Record(ctx context.Context, of client.Object, before, wanted any) (bool, error) {
	return s.apply(ctx, of, of.GetResourceVersion(), before, wanted)
}

// Forget drops what is remembered of a resource that is gone.
func (s *Statuses) Forget(kind string, name types.NamespacedName) {
	s.written.Forget(resource{kind, name})
}

// Len is of how many resources something is remembered.
func (s *Statuses) Len() int { return s.written.Len() }

func (s *Statuses) apply(ctx context.Context, of client.Object, version string, before, wanted any) (bool, error) {
	intent, err := s.intent(of, wanted)
	if err != nil {
		return false, err
	}
	key := resource{intent.GetKind(), client.ObjectKeyFromObject(of)}
	digest := sha256.Sum256(fmt.Append(nil, intent.Object["status"]))
	last, isKnown := s.written.Of(key)
	if equality.Semantic.DeepEqual(before, wanted) && (!isKnown || last == digest) {
		return false, nil
	}
	intent.SetResourceVersion(version)
	if err := s.applier.ApplyStatus(ctx, client.ApplyConfigurationFromUnstructured(intent)); err != nil {
		return false, err
	}
	s.written.Put(key, digest)
	return true, nil
}

func (s *Statuses) intent(of client.Object, wanted any) (*unstructured.Unstructured, error) {
	kind, err := s.writer.GroupVersionKindFor(of)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", of.GetName(), err)
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of %s %s: %w", kind.Kind, of.GetName(), err)
	}
	intent := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	intent.SetGroupVersionKind(kind)
	intent.SetNamespace(of.GetNamespace())
	intent.SetName(of.GetName())
	intent.SetUID(of.GetUID())
	return intent, nil
}
