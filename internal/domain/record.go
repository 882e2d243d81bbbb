package domain

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Record is what was decided from, for people and for the plans that they ask for. What is known of members beyond that, and the
// versions of Secrets, are for the caller to add. cluster and domain are called as the names of the CA's Secrets have it.
func (d *Decided) Record(words *rotation.Words, cluster, domain string) rotation.Record {
	return rotation.Record{
		Words: words, Cluster: cluster, Domain: domain, Snapshot: d.Snapshot, Refused: d.Refusal(), Anchors: d.Names(),
		Members: map[trust.MemberID]rotation.MemberFacts{}, Versions: map[string]string{}, UserProvided: d.seen.isUserProvided(),
	}
}

// Refusal says what is wrong with the Secrets of a CA that stands as it is; empty where it does not.
func (d *Decided) Refusal() string {
	if !d.Held || len(d.Problems) == 0 {
		return ""
	}
	return (&authority.InvalidResourceError{Problems: d.Problems}).Error()
}

// Names describe the CA certificates for people.
func (d *Decided) Names() map[trust.AnchorID]rotation.AnchorName {
	names := make(map[trust.AnchorID]rotation.AnchorName, len(d.Known))
	for _, ca := range d.Known {
		name := rotation.AnchorName{
			CommonName: ca.Subject.CommonName, SHA1: pki.SHA1Name(ca), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			Entry: d.Entries[pki.FingerprintOf(ca)], LostTo: d.lostTo(ca), Above: len(d.Chain) > 1 && slices.ContainsFunc(d.Chain[1:], ca.Equal),
		}
		switch {
		case d.of.Name != d.of.Own:
			name.CrossSignBlocked = evidence.UsersSendNone
		case !pki.CanCrossSign(ca):
			name.CrossSignBlocked = fmt.Sprintf("certificate %q has path length 0 and is valid until %s", ca.Subject.CommonName, ca.NotAfter.UTC().Format(time.RFC3339))
		}
		names[evidence.AnchorID(ca)] = name
	}
	return names
}

// lostTo says who of those that read a user's Secret refuses the leaves of one of its CAs. Members send the issuers of a CA along
// with its leaves.
func (d *Decided) lostTo(ca *x509.Certificate) rotation.Readers {
	verifies := func(anchor *x509.Certificate) bool {
		return pki.AuthorityIDOf(anchor) == pki.AuthorityIDOf(ca) || pki.IssuedBy(ca, anchor)
	}
	switch {
	case !d.seen.isUserProvided() || len(d.Chain) == 0 || verifies(d.Chain[0]):
		return rotation.NoReader
	case slices.ContainsFunc(d.Chain, verifies):
		return rotation.FirstReaders
	case d.Entries[pki.FingerprintOf(ca)] != "":
		return rotation.CaCrtReaders
	default:
		return rotation.EveryReader
	}
}
