package kube_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kube"
)

func TestWhoHasWrittenAnObjectIsToldByHowItIsWritten(t *testing.T) {
	t.Parallel()
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource}
	}
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	for name, c := range map[string]struct {
		fields         []metav1.ManagedFieldsEntry
		applied, wrote bool
	}{
		"the owner has applied it":               {[]metav1.ManagedFieldsEntry{entry("test", apply, "")}, true, true},
		"others have written it, too":            {[]metav1.ManagedFieldsEntry{entry("kubectl", update, ""), entry("test", apply, "")}, true, true},
		"the owner has patched it":               {[]metav1.ManagedFieldsEntry{entry("test", update, "")}, false, true},
		"the owner has applied its status alone": {[]metav1.ManagedFieldsEntry{entry("test", apply, "status")}, false, false},
		"another has applied it":                 {[]metav1.ManagedFieldsEntry{entry("testing", apply, "")}, false, false},
		"nobody knows who wrote it":              {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &metav1.ObjectMeta{ManagedFields: c.fields}
			if got := kube.Applied(object, client.FieldOwner("test")); got != c.applied {
				t.Errorf("applied: %t, want %t", got, c.applied)
			}
			if got := kube.Wrote(object, client.FieldOwner("test")); got != c.wrote {
				t.Errorf("written: %t, want %t", got, c.wrote)
			}
		})
	}
}
