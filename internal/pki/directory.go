package pki

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
)

// directoryLimits are the name constraints of a CA on the subjects of certificates below it, which crypto/x509 leaves out.
type directoryLimits struct{ permitted, excluded []pkix.RDNSequence }

// checkDirectoryNames refuses a subject that the constraints of one of its issuers exclude. Damaged constraints are none.
func checkDirectoryNames(chain []*x509.Certificate) error {
	for i, issuer := range chain {
		limits := directoryLimitsOf(issuer)
		for at, cert := range chain[:i] {
			var subject pkix.RDNSequence
			if _, err := asn1.Unmarshal(cert.RawSubject, &subject); err != nil || len(subject) == 0 || at > 0 && isSelfIssued(cert) {
				continue
			}
			if !limits.allow(subject) {
				return fmt.Errorf("the name constraints of issuer %q exclude the subject %q", issuer.Subject, cert.Subject)
			}
		}
	}
	return nil
}

// CheckSubject refuses the subject of a leaf that the constraints of one of its issuers exclude. The JVM does not look at
// those of a CA that it trusts itself, and OpenSSL does.
func CheckSubject(issuers []*x509.Certificate, subject Subject) error {
	raw, err := asn1.Marshal(subject.name().ToRDNSequence())
	if err != nil {
		return fmt.Errorf("encoding the subject %q: %w", subject, err)
	}
	leaf := &x509.Certificate{RawSubject: raw, Subject: subject.name()}
	return checkDirectoryNames(append([]*x509.Certificate{leaf}, issuers...))
}

func isSelfIssued(cert *x509.Certificate) bool { return bytes.Equal(cert.RawSubject, cert.RawIssuer) }

func directoryLimitsOf(ca *x509.Certificate) directoryLimits {
	value, _ := extension(ca, asn1.ObjectIdentifier{2, 5, 29, 30})
	var constraints struct {
		Permitted []subtree `asn1:"optional,tag:0"`
		Excluded  []subtree `asn1:"optional,tag:1"`
	}
	if _, err := asn1.Unmarshal(value, &constraints); err != nil {
		return directoryLimits{}
	}
	return directoryLimits{directoryNames(constraints.Permitted), directoryNames(constraints.Excluded)}
}

type subtree struct {
	Base    asn1.RawValue
	Minimum int `asn1:"optional,tag:0"`
	Maximum int `asn1:"optional,tag:1"`
}

func directoryNames(subtrees []subtree) []pkix.RDNSequence {
	const directoryName = 4
	var names []pkix.RDNSequence
	for _, s := range subtrees {
		var name pkix.RDNSequence
		if s.Base.Tag != directoryName {
			continue
		}
		if _, err := asn1.Unmarshal(s.Base.Bytes, &name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func (d directoryLimits) allow(subject pkix.RDNSequence) bool {
	isAbove := func(base pkix.RDNSequence) bool {
		return len(base) <= len(subject) && slices.EqualFunc(base, subject[:len(base)], isSameName)
	}
	return !slices.ContainsFunc(d.excluded, isAbove) && (len(d.permitted) == 0 || slices.ContainsFunc(d.permitted, isAbove))
}

// isSameName compares without case and without repeated spaces, as clients do.
func isSameName(a, b pkix.RelativeDistinguishedNameSET) bool {
	return slices.EqualFunc(a, b, func(a, b pkix.AttributeTypeAndValue) bool {
		text := func(value any) string { return strings.Join(strings.Fields(fmt.Sprint(value)), " ") }
		return a.Type.Equal(b.Type) && strings.EqualFold(text(a.Value), text(b.Value))
	})
}
