package pki

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// CheckIssuer refuses a chain of CAs, the one that issues leaves first, whose leaves
// verifiers would refuse whatever they say: because of its path lengths, of a curve that
// some do not know, of usages that it does not pass on, or of something that must be
// understood and is not.
func CheckIssuer(chain []*x509.Certificate, usages ...Usage) error {
	if err := checkPathLengths(chain); err != nil {
		return err
	}
	for _, cert := range chain {
		if err := checkCurve(cert); err != nil {
			return err
		}
		if unknown := cert.UnhandledCriticalExtensions; len(unknown) > 0 {
			names := make([]string, 0, len(unknown))
			for _, id := range unknown {
				names = append(names, id.String())
			}
			return fmt.Errorf("certificate %q has critical extensions that verifiers do not know: %s", cert.Subject, strings.Join(names, ", "))
		}
		for _, usage := range usages {
			if !passesOn(cert, usage) {
				return fmt.Errorf("certificate %q has extended key usages without %s, so that no leaf below it may be used for that", cert.Subject, usage)
			}
		}
	}
	return nil
}

func pathLength(cert *x509.Certificate) (limit int, limited bool) {
	return cert.MaxPathLen, cert.MaxPathLen > 0 || cert.MaxPathLen == 0 && cert.MaxPathLenZero
}

// passesOn reports whether leaves below a CA may have the usage: a CA that names none
// sets no limit.
func passesOn(cert *x509.Certificate, usage Usage) bool {
	if len(cert.ExtKeyUsage) == 0 && len(cert.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(cert.ExtKeyUsage, usage.ext()) || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// TryIssue issues a leaf that is not kept, and verifies it as a peer does that trusts only one of the
// anchors. What it cannot find is left to CheckIssuer, because a verifier only says that it found no way.
func (a Authority) TryIssue(spec LeafSpec, presented []*x509.Certificate, anchors ...*x509.Certificate) error {
	key, err := GenerateKey(KeyParams{Algorithm: ECDSA, Size: 256})
	if err != nil {
		return fmt.Errorf("trying to issue a leaf: %w", err)
	}
	leaf, err := a.Issue(key.Signer().Public(), spec)
	if err != nil {
		return fmt.Errorf("trying to issue a leaf: %w", err)
	}
	for _, anchor := range anchors {
		if err := Verify(append([]*x509.Certificate{leaf}, presented...), []*x509.Certificate{anchor}, spec.Now, spec.Usages...); err != nil {
			return err
		}
	}
	return nil
}
