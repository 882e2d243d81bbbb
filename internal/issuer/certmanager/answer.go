package certmanager

import (
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// answer is the outcome of a request whose Certificate says what was asked for. secret is nil when there is none.
func (o *Options) answer(request issuer.Request, certificate *state, secret *corev1.Secret) issuer.Outcome {
	pending := issuer.Pending{Since: certificate.since()}
	if !certificate.isIssued() {
		pending.Why = certificate.waiting()
		return pending
	}
	if secret == nil {
		pending.Why = fmt.Sprintf("Secret %s/%s does not exist. cert-manager reissues the certificate; if it does not, check that it runs.",
			certificate.Namespace, o.secretName(certificate.Name))
		return pending
	}
	again := "delete the Secret to have the certificate reissued"
	if o.Placement == InGivenSecret {
		again = fmt.Sprintf("run cmctl renew %s --namespace %s", certificate.Name, certificate.Namespace)
	}
	next := certificate.next()
	switch outcome := found(request, secret, pending, again).(type) {
	case issuer.Issued:
		outcome.Next = next
		return outcome
	case issuer.Denied:
		if next != nil {
			return *next // the certificate is a former one
		}
		return outcome
	default:
		return outcome
	}
}

// found is the outcome that a Secret holds. again is how a person has another certificate issued.
func found(request issuer.Request, secret *corev1.Secret, pending issuer.Pending, again string) issuer.Outcome {
	name := secret.Namespace + "/" + secret.Name
	chain, key, err := identity(secret)
	if err != nil {
		pending.Why = fmt.Sprintf("Secret %s holds no certificate: %v. cert-manager reissues it; if it does not, %s.", name, err, again)
		return pending
	}
	leaf := chain[0]
	if pki.SignedBy(leaf, leaf) {
		return issuer.Denied{Why: fmt.Sprintf("The certificate in Secret %s is signed with its own key. It is not used, because no CA verifies it. "+
			"A SelfSigned issuer cannot be used here: name an issuer that has a CA.", name)}
	}
	if different := Differs(request, leaf); different != "" {
		return issuer.Denied{Why: fmt.Sprintf("The certificate in Secret %s is not the requested one: %s. It is not used. "+
			"Correct the issuer, then %s.", name, different, again)}
	}
	switch {
	case request.Now.Before(leaf.NotBefore):
		pending.Why = fmt.Sprintf("The certificate in Secret %s is not used before %s, when it becomes valid. If that is not soon, correct the clocks.", name, at(leaf.NotBefore))
		return pending
	case request.Now.After(leaf.NotAfter):
		pending.Why = fmt.Sprintf("The certificate in Secret %s expired at %s. cert-manager renews it; if it does not, check that it runs.", name, at(leaf.NotAfter))
		return pending
	}
	return issuer.Issued{Chain: presented(chain), Key: key}
}

// identity reads a chain and the key of its leaf.
func identity(secret *corev1.Secret) ([]*x509.Certificate, pki.PrivateKey, error) {
	chain, err := pki.ParseChain(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return nil, pki.PrivateKey{}, fmt.Errorf("%s: %w", corev1.TLSCertKey, err)
	}
	key, err := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, pki.PrivateKey{}, fmt.Errorf("%s: %w", corev1.TLSPrivateKeyKey, err)
	}
	if !key.Matches(chain[0]) {
		return nil, pki.PrivateKey{}, errors.New("certificate and key do not belong together")
	}
	return chain, key, nil
}

// presented leaves out roots: peers have their own, and trust none that they are sent.
func presented(chain []*x509.Certificate) []*x509.Certificate {
	kept := chain[:1:1]
	for _, above := range chain[1:] {
		if !pki.SignedBy(above, above) {
			kept = append(kept, above)
		}
	}
	return kept
}
