package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
	"time"
)

// minRSABits: keys of 2048 bits from some programs have 2047, and clients accept them.
const minRSABits = 2047

// ServerProblems are the reasons for which clients with the JVM or with OpenSSL reject a server that presents a chain,
// although they trust its last certificate. The chain is in order and valid. Names are not compared.
func ServerProblems(chain []*x509.Certificate, now time.Time) []error {
	problems := leafProblems(chain[0], len(chain) == 1 && IssuedBy(chain[0], chain[0]))
	for _, cert := range chain {
		problems = append(problems, checkCurve(cert), CheckStrength(cert), checkCritical(cert))
	}
	for _, issuer := range chain[1:] {
		if !isForServers(issuer) {
			problems = append(problems, fmt.Errorf("the extended key usage of issuer %q lacks server authentication", issuer.Subject))
		}
	}
	problems = append(problems, checkPathLengths(chain[1:]), checkDirectoryNames(chain), checkSignature(chain[len(chain)-1]), verifyPresented(chain, now))
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

func leafProblems(leaf *x509.Certificate, isTrustedItself bool) []error {
	var problems []error
	handshakes := x509.KeyUsageDigitalSignature
	if isTrustedItself {
		handshakes |= x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement
	}
	if _, limited := extension(leaf, keyUsage()); limited && leaf.KeyUsage&handshakes == 0 {
		problems = append(problems, fmt.Errorf("the key usage of certificate %q lacks digitalSignature", leaf.Subject))
	}
	if !isForServers(leaf) {
		problems = append(problems, fmt.Errorf("the extended key usage of certificate %q lacks server authentication", leaf.Subject))
	}
	if excludesServers(leaf) {
		problems = append(problems, fmt.Errorf("the Netscape certificate type of certificate %q excludes servers", leaf.Subject))
	}
	return problems
}

// isForServers reports whether OpenSSL takes a certificate, or those below it, for that of a server: any purpose is not enough.
func isForServers(cert *x509.Certificate) bool {
	return len(cert.ExtKeyUsage) == 0 && len(cert.UnknownExtKeyUsage) == 0 || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
}

// netscapeType is an extension of old PKIs. Its second bit is for servers.
func netscapeType() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 16, 840, 1, 113730, 1, 1} }

func excludesServers(leaf *x509.Certificate) bool {
	var purposes asn1.BitString
	value, found := extension(leaf, netscapeType())
	if !found {
		return false
	}
	_, err := asn1.Unmarshal(value, &purposes)
	return err == nil && purposes.At(1) == 0
}

func extension(cert *x509.Certificate, id asn1.ObjectIdentifier) ([]byte, bool) {
	for _, ext := range cert.Extensions {
		if ext.Id.Equal(id) {
			return ext.Value, true
		}
	}
	return nil, false
}

func keyUsage() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 29, 15} }

// checkCurve refuses elliptic curves that the JVM does not know.
func checkCurve(cert *x509.Certificate) error {
	curves := []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}
	key, is := cert.PublicKey.(*ecdsa.PublicKey)
	if !is || slices.Contains(curves, key.Curve) {
		return nil
	}
	return fmt.Errorf("the key of certificate %q has curve %s, which no JVM knows: use P-256, P-384 or P-521", cert.Subject, key.Curve.Params().Name)
}

// checkSignature refuses what OpenSSL refuses of a certificate by an issuer that is not presented.
func checkSignature(last *x509.Certificate) error {
	weak := []x509.SignatureAlgorithm{x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1}
	if !slices.Contains(weak, last.SignatureAlgorithm) || IssuedBy(last, last) {
		return nil
	}
	return fmt.Errorf("certificate %q is signed with %s, which clients refuse", last.Subject, last.SignatureAlgorithm)
}

// CheckStrength refuses an RSA key that is too short for OpenSSL. The JVM accepts it.
func CheckStrength(cert *x509.Certificate) error {
	if key, is := cert.PublicKey.(*rsa.PublicKey); is && key.N.BitLen() < minRSABits {
		return fmt.Errorf("the RSA key of certificate %q has %d bits: clients need 2048", cert.Subject, key.N.BitLen())
	}
	return nil
}

// checkCritical refuses critical extensions that the JVM or OpenSSL does not know.
func checkCritical(cert *x509.Certificate) error {
	known := []string{
		"2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.30", "2.5.29.32", "2.5.29.33", "2.5.29.36", "2.5.29.37", "2.5.29.54", netscapeType().String(),
	}
	var unknown []string
	for _, ext := range cert.Extensions {
		if ext.Critical && !slices.Contains(known, ext.Id.String()) {
			unknown = append(unknown, ext.Id.String())
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("certificate %q has critical extensions that clients do not know: %s", cert.Subject, strings.Join(unknown, ", "))
}

// checkPathLengths does not count CAs that name themselves as issuer, as clients do not. The one that issues leaves is the first.
func checkPathLengths(issuers []*x509.Certificate) error {
	below := 0
	for _, issuer := range issuers {
		if limit, limited := pathLength(issuer); limited && below > limit {
			return fmt.Errorf("certificate %q has path length %d, and %d CAs are between it and a leaf", issuer.Subject, limit, below)
		}
		if !isSelfIssued(issuer) {
			below++
		}
	}
	return nil
}

// verifyPresented finds what the checks before do not: name constraints, policies, signatures and key identifiers.
func verifyPresented(chain []*x509.Certificate, now time.Time) error {
	plain := make([]*x509.Certificate, 0, len(chain))
	for _, cert := range chain {
		c := *cert
		c.UnhandledCriticalExtensions, c.MaxPathLen = nil, -1
		if limitsMail(chain) {
			c.EmailAddresses = append(slices.Clone(c.EmailAddresses), mailsInSubject(cert)...)
		}
		plain = append(plain, &c)
	}
	return Verify(plain, plain[len(plain)-1:], now)
}

func limitsMail(chain []*x509.Certificate) bool {
	return slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
		return len(c.PermittedEmailAddresses) > 0 || len(c.ExcludedEmailAddresses) > 0
	})
}

// mailsInSubject are addresses that OpenSSL compares with name constraints, and crypto/x509 does not.
func mailsInSubject(cert *x509.Certificate) []string {
	var mails []string
	for _, attribute := range cert.Subject.Names {
		if mail, is := attribute.Value.(string); is && attribute.Type.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}) {
			mails = append(mails, mail)
		}
	}
	return mails
}
