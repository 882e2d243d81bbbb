package model

import (
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// CASpec reads what a Kafka says about one of its CAs; nil is a CA of which it says nothing.
func CASpec(ca *kafkav1.CertificateAuthority) authority.Spec {
	if ca == nil {
		return authority.Spec{Source: authority.Generated}
	}
	spec := authority.Spec{
		Source:       authority.Generated,
		ValidFor:     days(ca.ValidityDays),
		RenewBefore:  days(ca.RenewalDays),
		Policy:       authority.ExpirationPolicy(ca.CertificateExpirationPolicy),
		KeyAlgorithm: pki.Algorithm(ca.KeyAlgorithm),
		KeySize:      number(ca.KeySize),
	}
	if _, _, uses := CertManagerIssuer(ca); uses {
		spec.Source = authority.Outside
		return spec
	}
	if ca.GenerateCertificateAuthority != nil && !*ca.GenerateCertificateAuthority {
		spec.Source = authority.UserProvided
	}
	return spec
}

// mostDays is what a time.Duration holds.
const mostDays = 106_000

func days(n *int32) time.Duration { return time.Duration(min(number(n), mostDays)) * authority.Day }

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
