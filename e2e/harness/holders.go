package harness

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/pki"
)

// Holders lists the entries of the Secrets in the cluster's namespace that have a
// certificate among their own, in PEM or in a store with its password beside it.
// Certificates that it has signed are not it.
func (k Kafka) Holders(ctx context.Context, certificate *x509.Certificate) ([]string, error) {
	var secrets corev1.SecretList
	if err := k.Kube.List(ctx, &secrets, client.InNamespace(k.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Secrets of namespace %s: %w", k.Namespace, err)
	}
	var holders []string
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		for entry := range secret.Data {
			held, err := certificatesIn(secret, entry)
			if err != nil {
				return nil, fmt.Errorf("reading %s of Secret %s: %w", entry, secret.Name, err)
			}
			if slices.ContainsFunc(held, certificate.Equal) {
				holders = append(holders, secret.Name+"/"+entry)
			}
		}
	}
	slices.Sort(holders)
	return holders, nil
}

// Mentions lists where a certificate stands, or its fingerprint: entries of Secrets, and
// annotations of pods.
func (k Kafka) Mentions(ctx context.Context, certificate *x509.Certificate) ([]string, error) {
	mentions, err := k.Holders(ctx, certificate)
	if err != nil {
		return nil, err
	}
	var secrets corev1.SecretList
	var pods corev1.PodList
	if err := errors.Join(
		k.Kube.List(ctx, &secrets, client.InNamespace(k.Namespace)), k.Kube.List(ctx, &pods, client.InNamespace(k.Namespace)),
	); err != nil {
		return nil, fmt.Errorf("listing Secrets and pods of namespace %s: %w", k.Namespace, err)
	}
	fingerprint := pki.FingerprintOf(certificate).String()
	for i := range secrets.Items {
		for entry, data := range secrets.Items[i].Data {
			if strings.Contains(string(data), fingerprint) {
				mentions = append(mentions, secrets.Items[i].Name+"/"+entry)
			}
		}
	}
	for i := range pods.Items {
		for name, text := range pods.Items[i].Annotations {
			if strings.Contains(text, fingerprint) {
				mentions = append(mentions, "pod "+pods.Items[i].Name+"/"+name)
			}
		}
	}
	slices.Sort(mentions)
	return mentions, nil
}

// certificatesIn are those of an entry with the name of certificates or of a store with
// certificates only.
func certificatesIn(secret *corev1.Secret, entry string) ([]*x509.Certificate, error) {
	name, isStore := strings.CutSuffix(entry, ".p12")
	switch {
	case isStore && secret.Data[name+".key"] == nil:
		return pki.DecodeTrustStore(secret.Data[entry], string(secret.Data[name+".password"]))
	case strings.HasSuffix(entry, ".crt"):
		return pki.ParseBundle(secret.Data[entry])
	default:
		return nil, nil
	}
}
