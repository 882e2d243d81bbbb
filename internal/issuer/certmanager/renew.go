package certmanager

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keyturn/keyturn/internal/issuer"
)

var _ issuer.Renewer = &Issuer{}

// renewing is the reason of the condition by which cert-manager is asked to issue again.
const renewing = "ReissuedForCA"

// Renew sets the condition Issuing of the Certificate, as people do with cmctl: cert-manager does not notice that another
// CA signs. It does nothing while an issuance is under way or has failed, and when another leaf was issued already.
func (i *Issuer) Renew(ctx context.Context, name string, renewal issuer.Renewal, now time.Time) (issuer.Renewed, error) {
	key := i.key(name)
	if asked := i.options.Memory.renewal(key, renewal); now.Before(asked.Next) {
		return asked, nil
	}
	certificate, secret, err := i.observe(ctx, name)
	if err != nil {
		return issuer.Renewed{}, fmt.Errorf("having Certificate %s reissued: %w", key, err)
	}
	if certificate == nil || secret == nil || i.options.unrelated(certificate) != "" {
		return issuer.Renewed{}, nil
	}
	current, err := stateOf(certificate)
	if err != nil || !current.rests() || !holds(secret, renewal.Present) {
		return issuer.Renewed{}, err
	}
	if err := i.setIssuing(ctx, certificate); apierrors.IsConflict(err) {
		return issuer.Renewed{}, nil // it has changed since it was read: nothing was asked, and it is read again
	} else if err != nil {
		return issuer.Renewed{}, err
	}
	i.options.Memory.noteRenewal(key, renewal, now)
	return i.options.Memory.renewal(key, renewal), nil
}

// rests reports whether cert-manager has issued what was asked for and is not at it again.
func (s *state) rests() bool { return s.isIssued() && !s.is("Issuing") && !s.hasFailed() }

// holds reports whether a Secret has the leaf and its key.
func holds(secret *corev1.Secret, leaf *x509.Certificate) bool {
	chain, _, err := identity(secret)
	return err == nil && chain[0].Equal(leaf)
}

func (i *Issuer) setIssuing(ctx context.Context, certificate *unstructured.Unstructured) error {
	now := metav1.Now().UTC().Format(time.RFC3339)
	intent := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": certificates().GroupVersion().String(), "kind": "Certificate",
		"metadata": map[string]any{
			nameField: certificate.GetName(), "namespace": certificate.GetNamespace(), "uid": string(certificate.GetUID()),
			"resourceVersion": certificate.GetResourceVersion(),
		},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Issuing", "status": string(metav1.ConditionTrue), "reason": renewing,
			"message":            "The CA of the issued certificate is not to be used from now on, or expires before the certificate.",
			"lastTransitionTime": now, "observedGeneration": certificate.GetGeneration(),
		}}},
	}}
	_, err := i.options.Server.Resource(certificates()).Namespace(certificate.GetNamespace()).
		ApplyStatus(ctx, certificate.GetName(), intent, metav1.ApplyOptions{FieldManager: FieldOwner, Force: true})
	if err != nil {
		return fmt.Errorf("having Certificate %s/%s reissued: %w", certificate.GetNamespace(), certificate.GetName(), err)
	}
	return nil
}
