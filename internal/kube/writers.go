package kube

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The managed fields of an object name its writers, but a client may use any name. They are not believed
// where that would do harm. Status does not count: a client that reports on an object has not made it.

// Applied reports whether the owner is among those who have written an object by
// server-side apply, as an Applier does.
func Applied(object metav1.Object, owner client.FieldOwner) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return Applies(entry, owner) })
}

// Wrote reports whether the owner is among those who have written an object in any way.
// It is for what is not applied: Secrets, see WriteSecret.
func Wrote(object metav1.Object, owner client.FieldOwner) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return Writes(entry, owner) })
}

// Applies reports whether fields are as the owner has applied them.
func Applies(entry metav1.ManagedFieldsEntry, owner client.FieldOwner) bool {
	return Writes(entry, owner) && entry.Operation == metav1.ManagedFieldsOperationApply
}

// Writes reports whether fields are as the owner has written them in any way.
func Writes(entry metav1.ManagedFieldsEntry, owner client.FieldOwner) bool {
	return entry.Manager == string(owner) && entry.Subresource == ""
}

// WroteData reports whether an entry of a Secret is as the owner has written it.
func WroteData(secret metav1.Object, owner client.FieldOwner, key string) bool {
	return slices.ContainsFunc(secret.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Data map[string]json.RawMessage `json:"f:data"`
		}
		if !Writes(entry, owner) || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, wrote := fields.Data["f:"+key]
		return wrote
	})
}
