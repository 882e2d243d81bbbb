package certmanager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kube"
)

// Given is the outcome of a request as the Secret that is given to cert-manager has it, whatever its Certificate says.
func Given(request issuer.Request, secret *corev1.Secret) issuer.Outcome {
	return found(request, secret, issuer.Pending{Since: request.Now}, "have the certificate reissued")
}

// Fills reports whether cert-manager has written a Secret for the Certificate of the same name.
func Fills(secret metav1.Object) bool {
	return secret.GetAnnotations()[CertificateNameAnnotation] == secret.GetName()
}

// Release takes what cert-manager has written out of a given Secret, which the owner goes on using, and deletes the
// Certificate. cert-manager may write once more between the two: the Secret is filled again then, and the next call clears it.
func (i *Issuer) Release(ctx context.Context, name string) error {
	certificate, err := i.options.Certificates.Certificate(ctx, i.key(name))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || i.options.unrelated(certificate) != "" {
		return i.clear(ctx, name)
	}
	// While the Certificate cannot be deleted, cert-manager would fill a cleared Secret again and again.
	if err := i.remove(ctx, certificates(), certificate, metav1.DryRunAll); err != nil {
		return err
	}
	if err := i.clear(ctx, name); err != nil {
		return err
	}
	i.options.Memory.forget(i.key(name))
	return i.remove(ctx, certificates(), certificate)
}

// clear takes away what is cert-manager's alone, exactly as it was read. It comes before the Certificate goes: a Secret that
// refers to it would go, too.
func (i *Issuer) clear(ctx context.Context, name string) error {
	secret, err := i.options.Secrets.Secret(ctx, i.key(name))
	if apierrors.IsNotFound(err) || err == nil && !Fills(secret) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := ownEntries(secret)
	if err != nil {
		return err
	}
	owners := slices.DeleteFunc(slices.Clone(secret.OwnerReferences), isCertificate)
	own := func(key string) bool {
		return strings.HasPrefix(key, Group+"/") || strings.HasSuffix(key, "."+Group+"/fao")
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": secret.UID, "resourceVersion": secret.ResourceVersion, "ownerReferences": owners,
			"annotations": removed(secret.Annotations, own), "labels": removed(secret.Labels, own),
		},
		"data": removed(secret.Data, func(entry string) bool { return slices.Contains(entries, entry) }),
	})
	if err != nil {
		return fmt.Errorf("encoding what to remove from Secret %s: %w", i.key(name), err)
	}
	_, err = i.options.Server.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(secret.Namespace).
		Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldOwner})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing cert-manager's entries from Secret %s: %w", i.key(name), err)
	}
	return nil
}

// ownEntries are those that nothing manages but what has written the certificate. The type of a Secret may need some of them.
func ownEntries(secret *corev1.Secret) ([]string, error) {
	managers, err := kube.EntryManagers(secret)
	if err != nil {
		return nil, fmt.Errorf("telling which entries are cert-manager's: %w", err)
	}
	var entries []string
	for entry, of := range managers {
		others := slices.ContainsFunc(of, func(m string) bool { return !slices.Contains(managers[corev1.TLSCertKey], m) })
		needed := secret.Type == corev1.SecretTypeTLS && (entry == corev1.TLSCertKey || entry == corev1.TLSPrivateKeyKey)
		if !others && !needed {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// removed says in a merge patch which entries go.
func removed[V any](from map[string]V, which func(string) bool) map[string]any {
	gone := map[string]any{}
	for key := range from {
		if which(key) {
			gone[key] = nil
		}
	}
	return gone
}
