// Package ownca is the issuer that signs with an authority whose key Keyturn
// holds. It answers at once and keeps no state, so the same request asked twice
// gets two certificates.
package ownca

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// Issuer signs with one authority.
type Issuer struct {
	authority pki.Authority
}

var _ issuer.Issuer = Issuer{}

// New returns an issuer that signs with authority. The zero authority denies
// every request: it stands for a CA whose key is kept elsewhere.
func New(authority pki.Authority) Issuer { return Issuer{authority: authority} }

// Issue signs at once. A request that the authority may not grant is Denied; an
// error means that signing itself went wrong.
func (i Issuer) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("issuing %q: %w", request.Name, err)
	}
	if i.authority.IsZero() {
		return issuer.Denied{Why: "the key of the CA is not in its Secret: put it there, or have the certificate signed where the key is"}, nil
	}
	if err := request.Validate(); err != nil {
		return issuer.Deny(err), nil
	}
	ca := i.authority.Certificate()
	if err := pki.CheckValidAt(ca, request.Now); err != nil {
		return issuer.Denied{Why: fmt.Sprintf("the CA cannot sign: %v; renew it (valid until %s)", err, ca.NotAfter.UTC().Format(time.RFC3339))}, nil
	}
	return i.sign(request)
}

// Withdraw has nothing to do: no request stays open.
func (i Issuer) Withdraw(context.Context, []string) error { return nil }

func (i Issuer) sign(request issuer.Request) (issuer.Outcome, error) {
	key, err := pki.GenerateKey(request.Key)
	if err != nil {
		return nil, fmt.Errorf("issuing %q: %w", request.Name, err)
	}
	leaf, err := i.authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject:  request.Subject,
		SANs:     request.SANs,
		Usages:   request.Usages,
		Validity: request.Validity,
		Now:      request.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("issuing %q: %w", request.Name, err)
	}
	return issuer.Issued{
		Chain:     append([]*x509.Certificate{leaf}, i.authority.Presents()...),
		Key:       key,
		Authority: pki.FingerprintOf(i.authority.Certificate()),
	}, nil
}
