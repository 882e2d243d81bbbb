package evidence_test

import (
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// What counts as stored while the Secret that pods mount is lost, or not there yet.
func TestWhoStandsInForALostState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	retired := ca(t, "retired").Certificate()
	outgoing, incoming := w.outgoing.Certificate(), w.incoming.Certificate()
	for name, c := range map[string]struct {
		domain     publication.Domain
		retirement trust.Retirement
		witness    evidence.Witness
		distrust   bool
		want       map[*x509.Certificate]trust.State
	}{
		"nobody, where nodes say what they have": {
			domain: contract.ClusterDomain, retirement: trust.RetireUnused, witness: evidence.Reported,
		},
		"who may still be relied on, where no node says anything": {
			domain: contract.ClusterDomain, retirement: trust.RetireUnused, witness: evidence.Silent,
			want: map[*x509.Certificate]trust.State{outgoing: trust.TrustedUnused, retired: trust.PhaseOut},
		},
		"nobody, where no node runs": {
			domain: contract.ClusterDomain, retirement: trust.RetireUnused, witness: evidence.NoProcess,
		},
		"whose leaves nobody can count, always": {
			domain: contract.ClientsDomain, retirement: trust.RetireExpired, witness: evidence.NoProcess,
			want: map[*x509.Certificate]trust.State{outgoing: trust.TrustedUnused, retired: trust.PhaseOut},
		},
		"nobody who is compromised": {
			domain: contract.ClientsDomain, retirement: trust.RetireExpired, witness: evidence.Reported, distrust: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := w.domain
			d.Name, d.Retirement, d.Stored = c.domain, c.retirement, nil
			d.Authority.Distrust = c.distrust
			d.Authority.Retired = []*x509.Certificate{retired}
			d.Authority.Published = append([]*x509.Certificate{retired}, w.domain.Authority.Published...)
			node := w.node
			node.Witness = c.witness

			cluster := evidence.Cluster{Now: now(), Own: contract.ClusterDomain, Agents: roles.Agent(), Nodes: []evidence.Node{node}}
			s := evidence.Snapshot(cluster, d, evidence.Known(cluster, d))

			for _, cert := range []*x509.Certificate{outgoing, incoming, retired} {
				if got := storedIn(s, cert); got != c.want[cert] {
					t.Errorf("%s counts as %q, want %q", cert.Subject.CommonName, got, c.want[cert])
				}
			}
		})
	}
}

func storedIn(s trust.Snapshot, cert *x509.Certificate) trust.State {
	for _, anchor := range s.Anchors {
		if anchor.ID == evidence.AnchorID(cert) {
			return anchor.Stored
		}
	}
	return trust.Absent
}
