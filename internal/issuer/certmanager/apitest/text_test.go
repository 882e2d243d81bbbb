package apitest

import (
	b64 "encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func contains(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func base64(data []byte) string { return b64.StdEncoding.EncodeToString(data) }

// unstructuredBytes reads a field of type []byte.
func unstructuredBytes(object map[string]any, path ...string) ([]byte, bool, error) {
	encoded, found, err := unstructured.NestedString(object, path...)
	if err != nil || !found {
		return nil, false, err
	}
	data, err := b64.StdEncoding.DecodeString(encoded)
	return data, true, err
}
