package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// CheckChainOrder checks that each certificate was issued by the one after it:
// a leaf or the CA that issues leaves first, the root last. A single certificate is in
// order. Validity periods are not looked at.
func CheckChainOrder(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the chain is empty")
	}
	for i, cert := range chain[:len(chain)-1] {
		issuer := chain[i+1]
		if !bytes.Equal(cert.RawIssuer, issuer.RawSubject) {
			return fmt.Errorf("the chain is out of order: certificate %d %q was issued by %q, but certificate %d is %q",
				i+1, cert.Subject, cert.Issuer, i+2, issuer.Subject)
		}
		if err := cert.CheckSignatureFrom(issuer); err != nil {
			return fmt.Errorf("certificate %d %q was not signed by certificate %d %q: %w", i+1, cert.Subject, i+2, issuer.Subject, err)
		}
	}
	return nil
}

// CheckCAChain checks a chain of CAs at a time: order, CA flags, path lengths,
// signatures and validity, with its last certificate as the anchor.
func CheckCAChain(chain []*x509.Certificate, now time.Time) error {
	if err := CheckChainOrder(chain); err != nil {
		return err
	}
	for _, cert := range chain {
		if err := CheckCA(cert); err != nil {
			return err
		}
		if err := CheckValidAt(cert, now); err != nil {
			return err
		}
	}
	path := withoutVersions(chain)
	if len(path) == 1 {
		return nil
	}
	return Verify(path[:len(path)-1], path[len(path)-1:], now)
}

// withoutVersions is a chain with the first certificate alone of each CA: a root may follow in several versions.
func withoutVersions(chain []*x509.Certificate) []*x509.Certificate {
	var path []*x509.Certificate
	for _, cert := range chain {
		if !slices.ContainsFunc(path, func(before *x509.Certificate) bool { return AuthorityIDOf(before) == AuthorityIDOf(cert) }) {
			path = append(path, cert)
		}
	}
	return path
}

// Needed splits an ordered chain into the path from its first certificate over the first valid issuer, and what is not valid
// and on no path that clients need: a cross certificate of a root that has expired, or another version of a root. A chain
// without a valid issuer, or with a valid one that only a broken path leads to, is needed as a whole, so that the certificate
// that breaks it is named.
func Needed(chain []*x509.Certificate, now time.Time) (needed, needless []*x509.Certificate) {
	needed = []*x509.Certificate{chain[0]}
	var apart []*x509.Certificate
	for _, cert := range chain[1:] {
		switch {
		case CheckValidAt(cert, now) != nil:
			needless = append(needless, cert)
		case signs(cert, needed[len(needed)-1]):
			needed = append(needed, cert)
		default:
			apart = append(apart, cert)
		}
	}
	if len(needed) == 1 && !signs(chain[0], chain[0]) || leadsTo(apart, needless, needed) {
		return chain, nil
	}
	return needed, needless
}

// leadsTo reports whether certificates are what a path to a valid issuer goes through, and no other version of them is needed.
func leadsTo(issuers, invalid, needed []*x509.Certificate) bool {
	return slices.ContainsFunc(invalid, func(cert *x509.Certificate) bool {
		isVersion := func(other *x509.Certificate) bool { return AuthorityIDOf(other) == AuthorityIDOf(cert) }
		isIssued := func(issuer *x509.Certificate) bool { return signs(issuer, cert) }
		return !slices.ContainsFunc(needed, isVersion) && slices.ContainsFunc(issuers, isIssued)
	})
}

// signs tells of an issuer what CheckChainOrder asks of it.
func signs(issuer, cert *x509.Certificate) bool {
	return bytes.Equal(cert.RawIssuer, issuer.RawSubject) && SignedBy(cert, issuer)
}

// CheckValidAt refuses a certificate that has expired or has not begun.
func CheckValidAt(cert *x509.Certificate, now time.Time) error {
	if now.After(cert.NotAfter) {
		return fmt.Errorf("certificate %q expired at %s", cert.Subject, cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Before(cert.NotBefore) {
		return fmt.Errorf("certificate %q is not valid before %s", cert.Subject, cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// BeginsLate reports whether a certificate is not valid yet although its CA is: a clock that was ahead has issued it.
func BeginsLate(cert, ca *x509.Certificate, now time.Time) bool {
	return now.Before(cert.NotBefore) && !now.Before(ca.NotBefore)
}

// EarliestEnd is when the first certificate of a chain expires.
func EarliestEnd(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, cert := range chain[1:] {
		end = earliest(end, cert.NotAfter)
	}
	return end
}

// Verify builds a path from presented[0] over the rest of presented to one of the anchors, as any peer
// does at the given time. Like OpenSSL and the JVM, it rejects an issuer with another key identifier than
// the certificate names. Names are not compared.
func Verify(presented, anchors []*x509.Certificate, now time.Time, usages ...Usage) error {
	if len(presented) == 0 {
		return errors.New("verifying: nothing was presented")
	}
	opts := x509.VerifyOptions{
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, anchor := range anchors {
		opts.Roots.AddCert(anchor)
	}
	for _, cert := range presented[1:] {
		opts.Intermediates.AddCert(cert)
	}
	if len(usages) == 0 {
		return verifyFor(presented[0], opts)
	}
	for _, usage := range usages {
		opts.KeyUsages = []x509.ExtKeyUsage{usage.ext()}
		if err := verifyFor(presented[0], opts); err != nil {
			return err
		}
	}
	return nil
}

func verifyFor(leaf *x509.Certificate, opts x509.VerifyOptions) error {
	chains, err := leaf.Verify(opts)
	if err != nil {
		return fmt.Errorf("verifying %q: %w", leaf.Subject, err)
	}
	if !slices.ContainsFunc(chains, linked) {
		return fmt.Errorf("verifying %q: %w", leaf.Subject, errKeyIdentifier)
	}
	return nil
}

var errKeyIdentifier = errors.New("its issuer has another key identifier than the one it names")

// linked reports whether each certificate of a chain names the key identifier of the
// next, as far as both have one.
func linked(chain []*x509.Certificate) bool {
	for i, cert := range chain[:len(chain)-1] {
		if !namesKeyOf(cert, chain[i+1]) {
			return false
		}
	}
	return true
}

func namesKeyOf(cert, issuer *x509.Certificate) bool {
	return len(cert.AuthorityKeyId) == 0 || len(issuer.SubjectKeyId) == 0 || bytes.Equal(cert.AuthorityKeyId, issuer.SubjectKeyId)
}

// IssuedBy tells whether verifiers take the authority for the issuer of cert: by its
// name, its key identifier and its signature.
func IssuedBy(cert, authority *x509.Certificate) bool {
	return bytes.Equal(cert.RawIssuer, authority.RawSubject) && namesKeyOf(cert, authority) && SignedBy(cert, authority)
}

// SignedBy tells whether the key of authority signed cert. It looks at the
// signature alone: what verifiers make of it, IssuedBy tells.
func SignedBy(cert, authority *x509.Certificate) bool {
	return authority.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil
}
