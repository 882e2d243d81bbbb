package harness

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// decodings is how often a text is taken for base64 again: a Secret encodes what an
// annotation had encoded before.
const decodings = 3

// PrivateKeys names the fields of all objects of a namespace that hold a private key, and
// counts the objects.
func (k *Kubernetes) PrivateKeys(ctx context.Context, namespace string) (found []string, objects int, err error) {
	// What an aggregated API does not tell is in no object of the namespace's own.
	lists, err := discovery.ServerPreferredNamespacedResources(k.Plain.Discovery())
	if err != nil && len(lists) == 0 {
		return nil, 0, fmt.Errorf("asking which kinds of objects there are: %w", err)
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			items, err := k.every(ctx, list.GroupVersion, resource, namespace)
			if err != nil {
				return nil, 0, err
			}
			for i := range items {
				objects++
				found = append(found, keysIn(resource.Kind+" "+items[i].GetName(), items[i].Object)...)
			}
		}
	}
	return found, objects, nil
}

// every lists the objects of a kind, none when it cannot be listed.
func (k *Kubernetes) every(ctx context.Context, group string, resource metav1.APIResource, namespace string) ([]unstructured.Unstructured, error) {
	if !slices.Contains(resource.Verbs, "list") {
		return nil, nil
	}
	items := &unstructured.UnstructuredList{}
	items.SetGroupVersionKind(schema.FromAPIVersionAndKind(group, resource.Kind+"List"))
	err := k.List(ctx, items, client.InNamespace(namespace))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		return nil, fmt.Errorf("listing %s: %w", resource.Name, err)
	}
	return items.Items, nil
}

// keysIn names the fields below a value that hold a private key.
func keysIn(path string, value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, keysIn(path+"."+key, value[key])...)
		}
	case []any:
		for _, element := range value {
			found = append(found, keysIn(path+"[]", element)...)
		}
	case string:
		if holdsKey(value, decodings) {
			found = append(found, path)
		}
	}
	return found
}

// holdsKey reports whether a text is, has, or encodes a private key.
func holdsKey(text string, depth int) bool {
	if strings.Contains(text, "PRIVATE KEY") || isKey([]byte(text)) {
		return true
	}
	if depth == 0 {
		return false
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if decoded, err := encoding.DecodeString(text); err == nil && len(decoded) > 0 {
			return holdsKey(string(decoded), depth-1)
		}
	}
	return false
}

// isKey reports whether the data are a private key in DER.
func isKey(data []byte) bool {
	_, pkcs8 := x509.ParsePKCS8PrivateKey(data)
	_, ec := x509.ParseECPrivateKey(data)
	_, rsa := x509.ParsePKCS1PrivateKey(data)
	return pkcs8 == nil || ec == nil || rsa == nil
}
