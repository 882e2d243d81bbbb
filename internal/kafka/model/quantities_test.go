package model

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// resources asks for memory; the empty text leaves a side out.
func resources(t *testing.T, request, limit string) *kafkav1.Resources {
	t.Helper()
	wanted := &kafkav1.Resources{}
	if request != "" {
		wanted.Requests = corev1.ResourceList{corev1.ResourceMemory: quantity(t, request)}
	}
	if limit != "" {
		wanted.Limits = corev1.ResourceList{corev1.ResourceMemory: quantity(t, limit)}
	}
	return wanted
}

func quantity(t *testing.T, text string) resource.Quantity {
	t.Helper()
	parsed, err := resource.ParseQuantity(text)
	must(t, err)
	return parsed
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	first, err := json.Marshal(a)
	must(t, err)
	second, err := json.Marshal(b)
	must(t, err)
	return bytes.Equal(first, second)
}
