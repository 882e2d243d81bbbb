package domain

import (
	"fmt"
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
		Words: words, Cluster: cluster, Domain: domain, Snapshot: d.Snapshot, Refused: d.refusal(), Anchors: d.names(),
		Members: map[trust.MemberID]rotation.MemberFacts{}, Versions: map[string]string{},
	}
}

// refusal is why a CA cannot be used; empty where it can.
func (d *Decided) refusal() string {
	if len(d.Problems) == 0 {
		return ""
	}
	return (&authority.InvalidResourceError{Problems: d.Problems}).Error()
}

// names describe the CA certificates for people.
func (d *Decided) names() map[trust.AnchorID]rotation.AnchorName {
	names := make(map[trust.AnchorID]rotation.AnchorName, len(d.known))
	for _, ca := range d.known {
		name := rotation.AnchorName{CommonName: ca.Subject.CommonName, SHA1: pki.SHA1Name(ca), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter}
		if !pki.CanCrossSign(ca) {
			name.CannotVouch = fmt.Sprintf("certificate %q has path length 0 and is valid until %s", ca.Subject.CommonName, ca.NotAfter.UTC().Format(time.RFC3339))
		}
		names[evidence.AnchorID(ca)] = name
	}
	return names
}
