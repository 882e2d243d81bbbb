package unattended

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of objects at which an operator looks that may be switched off.
type Kind struct {
	schema.GroupVersionKind

	// Owner is the field manager of that operator: when it starts, it takes away what was written in its place.
	Owner string
	// Condition is the type of the condition that says so, and Status its status.
	Condition string
	Status    metav1.ConditionStatus
	// Message says what does not happen, and how to switch the operator on.
	Message func(object metav1.Object) string
}

// Reason is that of the condition and of the event.
const Reason = "NoOperator"

const status = "status"

// Trim leaves of the managed fields of an object whether somebody has written its status. Caches call it.
func Trim(object metav1.Object) {
	var kept []metav1.ManagedFieldsEntry
	if hasStatus(object) {
		kept = []metav1.ManagedFieldsEntry{{Subresource: status}}
	}
	object.SetManagedFields(kept)
}

func hasStatus(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == status })
}

// intent is the status of an object of the kind, with the one condition.
func (k Kind) intent(object metav1.Object, now time.Time) *unstructured.Unstructured {
	intent := &unstructured.Unstructured{Object: map[string]any{status: map[string]any{"conditions": []any{map[string]any{
		"type": k.Condition, "status": string(k.Status), "reason": Reason, "message": k.Message(object),
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}}}}}
	intent.SetGroupVersionKind(k.GroupVersionKind)
	intent.SetNamespace(object.GetNamespace())
	intent.SetName(object.GetName())
	intent.SetUID(object.GetUID())
	return intent
}

func (k Kind) metadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(k.GroupVersionKind)
	return object
}
