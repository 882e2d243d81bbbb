package enroll

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// renewalParts: a certificate is renewed when one part of so many of its life is left.
const renewalParts = 3

// encode renders a chain as the annotation carries it: standard base64 of PEM.
func encode(leaf *x509.Certificate, presents []*x509.Certificate) string {
	chain := append([]*x509.Certificate{leaf}, presents...)
	return base64.StdEncoding.EncodeToString(pki.EncodeBundle(chain...))
}

// Chain reads an answer.
func Chain(answer string) ([]*x509.Certificate, error) {
	data, err := decode(answer)
	if err != nil {
		return nil, err
	}
	chain, err := pki.ParseChain(data)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of a member: %w", err)
	}
	return chain, nil
}

// due says why a request needs another answer than it has, empty when the answer stays. Without an answer that stays,
// the time of renewal means nothing.
func (in Input) due(request *x509.CertificateRequest) (why string, renewal time.Time) {
	if in.Answer == "" {
		return "it is the first", time.Time{}
	}
	chain, err := Chain(in.Answer)
	if err != nil {
		return "the previous one cannot be read", time.Time{}
	}
	leaf := chain[0]
	switch {
	case pki.KeyIDOf(leaf) != keyOf(request):
		return "the key is new", time.Time{}
	case !pki.IssuedBy(leaf, in.CA.Certificate()):
		return "the CA is new", time.Time{}
	case !pki.HasSubject(leaf, in.subject()) || !pki.SANsOf(leaf).Equal(in.SANs):
		return "the names have changed", time.Time{}
	case !slices.EqualFunc(chain[1:], in.CA.Presents(), (*x509.Certificate).Equal):
		return "other certificates are presented with it", time.Time{}
	case pki.BeginsLate(leaf, in.CA.Certificate(), in.Now):
		return "the previous one is not valid yet", time.Time{}
	case in.isExpiring(leaf):
		return "the previous one is due for renewal", time.Time{}
	default:
		return "", RenewalAt(leaf)
	}
}

// isExpiring tells whether renewal is due and would win anything: what ends with its CA cannot be made to last longer.
func (in Input) isExpiring(leaf *x509.Certificate) bool {
	end := in.Now.Add(in.Validity)
	if last := in.CA.Certificate().NotAfter; last.Before(end) {
		end = last
	}
	return !in.Now.Before(RenewalAt(leaf)) && end.Truncate(time.Second).After(leaf.NotAfter)
}

// RenewalAt is when a certificate of a member is renewed: when a third of its life is left.
func RenewalAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore.Add(pki.Backdate))
	return leaf.NotAfter.Add(-life / renewalParts)
}
