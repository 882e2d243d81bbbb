package certmanager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CertificateReader reads Certificates, whole and with their managed fields. It may answer from a cache, except that
// what a cache does not have is looked for in the API server: a Certificate that exists must not be missed. Nothing
// that it returns is changed.
type CertificateReader interface {
	// Certificate returns one, or the API server's error NotFound.
	Certificate(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error)
	// Certificates returns those that the selector selects. One that was made a moment ago may be left out.
	Certificates(ctx context.Context, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error)
}

// SecretReader reads Secrets.
type SecretReader interface {
	// Secret returns one as the API server has it, or its error NotFound. Secrets hold keys and belong in no cache; a
	// caller that has read it already in the same reconcile may return that.
	Secret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error)
	// Secrets returns the metadata of those that the selector selects. It may come from a cache that keeps labels, owner
	// references, UIDs and CertificateNameAnnotation.
	Secrets(ctx context.Context, namespace string, selector labels.Selector) ([]metav1.PartialObjectMetadata, error)
}

// Live reads everything from the API server.
type Live struct {
	Server dynamic.Interface
	// Client reads past the cache.
	Client client.Reader
}

// Certificate implements CertificateReader.
func (l Live) Certificate(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	certificate, err := l.Server.Resource(certificates()).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Certificate %s: %w", key, err)
	}
	return certificate, nil
}

// Certificates implements CertificateReader.
func (l Live) Certificates(ctx context.Context, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error) {
	list, err := l.Server.Resource(certificates()).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing Certificates in namespace %s: %w", namespace, err)
	}
	found := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// Secret implements SecretReader.
func (l Live) Secret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := l.Client.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret, nil
}

// Secrets implements SecretReader.
func (l Live) Secrets(ctx context.Context, namespace string, selector labels.Selector) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := l.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing metadata of Secrets in namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}
