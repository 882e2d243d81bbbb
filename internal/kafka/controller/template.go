package controller

import (
	"encoding/json"
	"maps"
	"slices"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kube"
)

// templateAnnotation remembers which labels and annotations of a Secret come from a
// template, so that what is taken out of the template leaves the Secret.
const templateAnnotation = authority.TemplateAnnotation

// templated are keys of labels and annotations, sorted.
type templated struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// addTemplate adds what the user wants on the Secret with the cluster CA's certificate,
// and removes what a template has added before, as its annotations remember it. The
// operator's own labels and annotations win.
func addTemplate(intent *kube.SecretIntent, wanted kafkav1.MetadataTemplate, stored map[string]string) {
	added := templated{without(wanted.Labels, intent.Labels), without(wanted.Annotations, intent.Annotations)}
	intent.Labels, intent.Annotations = merged(wanted.Labels, intent.Labels), merged(wanted.Annotations, intent.Annotations)

	before, remembers := stored[templateAnnotation]
	var had templated
	if json.Unmarshal([]byte(before), &had) == nil {
		intent.RemoveLabels = append(intent.RemoveLabels, missingFrom(intent.Labels, had.Labels)...)
		intent.RemoveAnnotations = append(intent.RemoveAnnotations, missingFrom(intent.Annotations, had.Annotations)...)
	}
	text, err := json.Marshal(added)
	switch {
	case len(added.Labels)+len(added.Annotations) > 0 && err == nil:
		intent.Annotations[templateAnnotation] = string(text)
	case remembers:
		intent.RemoveAnnotations = append(intent.RemoveAnnotations, templateAnnotation)
	}
}

// without are the keys of one map that the other does not have, sorted.
func without(of, other map[string]string) []string {
	return missingFrom(other, slices.Sorted(maps.Keys(of)))
}

// missingFrom are the keys that a map does not have.
func missingFrom(of map[string]string, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, has := of[key]
		return has
	})
}

func merged(base, winner map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, base)
	maps.Copy(out, winner)
	return out
}
