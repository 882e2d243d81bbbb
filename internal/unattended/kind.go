package unattended

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keyturn/keyturn/internal/kstatus"
)

// Patience is for how long an operator that is switched on may leave a new object without a status.
const Patience = 2 * time.Minute

// Kind is a kind of objects whose operator may be switched off.
type Kind struct {
	schema.GroupVersionKind

	// Owner is the field manager of that operator: when it starts, it removes what was written in its place.
	Owner string
	// Condition is the type of the condition that says so, and Status its status.
	Condition string
	Status    metav1.ConditionStatus
	// Message says what is not done, and how to switch the operator on.
	Message func(object metav1.Object) string
}

// Reason is that of the condition and of the event.
const Reason = "NoOperator"

const status = "status"

// Trim removes the managed fields of an object but for the fact that its status was written. Caches call it.
func Trim(object metav1.Object) {
	var kept []metav1.ManagedFieldsEntry
	if HasStatus(object) {
		kept = []metav1.ManagedFieldsEntry{{Subresource: status}}
	}
	object.SetManagedFields(kept)
}

// HasStatus reports whether the status of an object was ever written.
func HasStatus(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == status })
}

// Intent is the status of an object of the kind, with the one condition and what follows from it. It applies only to the version that was read: the
// operator that is missing may start to write at the same moment.
func (k Kind) Intent(object metav1.Object, now time.Time) *unstructured.Unstructured {
	said := func(kind string, is metav1.ConditionStatus) map[string]any {
		return map[string]any{
			"type": kind, "status": string(is), "reason": Reason, "message": k.Message(object),
			"lastTransitionTime": now.UTC().Format(time.RFC3339),
		}
	}
	intent := &unstructured.Unstructured{Object: map[string]any{status: map[string]any{"conditions": []any{
		said(k.Condition, k.Status), said(kstatus.Of(k.Condition, string(k.Status), Reason), metav1.ConditionTrue),
	}}}}
	intent.SetGroupVersionKind(k.GroupVersionKind)
	intent.SetNamespace(object.GetNamespace())
	intent.SetName(object.GetName())
	intent.SetUID(object.GetUID())
	intent.SetResourceVersion(object.GetResourceVersion())
	return intent
}

// Metadata is an empty object of the kind, to be read.
func (k Kind) Metadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(k.GroupVersionKind)
	return object
}
