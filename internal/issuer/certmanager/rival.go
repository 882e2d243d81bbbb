package certmanager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keyturn/keyturn/internal/issuer"
)

// withRival adds to what was issued that another Certificate names the same Secret, if one does. cert-manager then writes
// what the one and the other say of the Secret in turn, without end.
func (i *Issuer) withRival(ctx context.Context, issued issuer.Issued, certificate string, secret *corev1.Secret) (issuer.Issued, error) {
	rival, err := i.rivalOf(ctx, certificate, secret)
	if err != nil || rival == "" {
		return issued, err
	}
	key := i.key(certificate)
	issued.Next = &issuer.Pending{Why: fmt.Sprintf("Certificates %s and %s/%s both name Secret %s, so that cert-manager rewrites it without end. "+
		"Delete Certificate %s/%s, or give it another secretName.", key, key.Namespace, rival, secret.Name, key.Namespace, rival)}
	return issued, nil
}

// rivalOf is the other Certificate that names a Secret; empty without any. It is looked for when the Secret was written and has
// the same certificate.
func (i *Issuer) rivalOf(ctx context.Context, certificate string, secret *corev1.Secret) (string, error) {
	key, memory := i.key(certificate), i.options.Memory
	if known := memory.rival(key); known != "" {
		found, err := i.options.Certificates.Certificate(ctx, i.key(known))
		switch {
		case err == nil && namesSecret(found, secret.Name):
			return known, nil
		case err != nil && !apierrors.IsNotFound(err):
			return "", err
		}
		memory.noteRival(key, "")
	}
	if !memory.rewritten(key, secret) {
		return "", nil
	}
	all, err := (Live{Server: i.options.Server}).Certificates(ctx, key.Namespace, labels.Everything()) // caches have the owner's alone
	if err != nil {
		return "", err
	}
	for _, other := range all {
		if other.GetName() != certificate && namesSecret(other, secret.Name) {
			memory.noteRival(key, other.GetName())
			return other.GetName(), nil
		}
	}
	return "", nil
}

// namesSecret reports whether cert-manager writes the Secret of a name for a Certificate.
func namesSecret(certificate *unstructured.Unstructured, secret string) bool {
	name, _, err := unstructured.NestedString(certificate.Object, "spec", "secretName")
	return err == nil && name == secret && certificate.GetDeletionTimestamp() == nil
}
