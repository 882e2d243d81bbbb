package kube

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// EntryManagers are the managers of the entries of a Secret that was read with its managed fields.
func EntryManagers(secret metav1.Object) (map[string][]string, error) {
	managers := map[string][]string{}
	for _, entry := range secret.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Subresource != "" {
			continue
		}
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(strings.NewReader(entry.FieldsV1.GetRawString())); err != nil {
			return nil, fmt.Errorf("reading the managed fields of %s/%s: %w", secret.GetNamespace(), secret.GetName(), err)
		}
		data := "data"
		for element := range fields.WithPrefix(fieldpath.PathElement{FieldName: &data}).All() {
			if name := element[0].FieldName; name != nil {
				managers[*name] = append(managers[*name], entry.Manager)
			}
		}
	}
	return managers, nil
}
