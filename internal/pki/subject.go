package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
)

// Subject is the part of a distinguished name that Keyturn uses. It encodes the
// organisation first and the common name second, which reads as
// "CN=<x>,O=<y>" in RFC 2253 form: access rules depend on that order.
type Subject struct {
	// Organization may be empty.
	Organization string
	CommonName   string
}

// String returns the RFC 2253 form, without escaping.
func (s Subject) String() string {
	if s.Organization == "" {
		return "CN=" + s.CommonName
	}
	return "CN=" + s.CommonName + ",O=" + s.Organization
}

func (s Subject) name() pkix.Name {
	name := pkix.Name{CommonName: s.CommonName}
	if s.Organization != "" {
		name.Organization = []string{s.Organization}
	}
	return name
}

// HasSubject tells whether the subject of cert is exactly s: nothing more,
// nothing less, in this order.
func HasSubject(cert *x509.Certificate, s Subject) bool { return isName(cert.Subject, s) }

func isName(name pkix.Name, s Subject) bool {
	want := s.name().ToRDNSequence()
	if len(name.Names) != len(want) {
		return false
	}
	for i, attribute := range name.Names {
		if !attribute.Type.Equal(want[i][0].Type) || attribute.Value != want[i][0].Value {
			return false
		}
	}
	return true
}
