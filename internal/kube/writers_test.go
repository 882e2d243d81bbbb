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

func TestWhoHasWrittenAnEntryOfASecretIsTold(t *testing.T) {
	t.Parallel()
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const key, annotation = `{"f:data":{".":{},"f:ca.key":{}}}`, `{"f:metadata":{"f:annotations":{"f:ca.key":{}}}}`
	for name, c := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"the owner":                      {[]metav1.ManagedFieldsEntry{entry("kubectl", annotation), entry("test", key)}, true},
		"the owner, an annotation alone": {[]metav1.ManagedFieldsEntry{entry("kubectl", key), entry("test", annotation)}, false},
		"another":                        {[]metav1.ManagedFieldsEntry{entry("kubectl", key)}, false},
		"nobody can tell":                {[]metav1.ManagedFieldsEntry{entry("test", "oops"), {Manager: "test"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := kube.WroteData(&metav1.ObjectMeta{ManagedFields: c.fields}, client.FieldOwner("test"), "ca.key"); got != c.want {
				t.Errorf("written: %t, want %t", got, c.want)
			}
		})
	}
}
