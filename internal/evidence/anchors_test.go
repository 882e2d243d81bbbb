package evidence_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/pki"
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
		state      evidence.ProcessState
		distrust   bool
		want       map[*x509.Certificate]trust.State
	}{
		"nobody, where nodes say what they have": {
			domain: contract.ClusterDomain, retirement: trust.RetireUnused, state: evidence.Running,
		},
		"who may still be relied on, where no node says anything": {
			domain: contract.ClusterDomain, retirement: trust.RetireUnused, state: evidence.Unknown,
			want: map[*x509.Certificate]trust.State{outgoing: trust.TrustedUnused, retired: trust.PhaseOut},
		},
		"nobody, where no node runs": {
			domain: contract.ClusterDomain, retirement: trust.RetireUnused, state: evidence.Absent,
		},
		"whose leaves nobody can count, always": {
			domain: contract.ClientsDomain, retirement: trust.RetireExpired, state: evidence.Absent,
			want: map[*x509.Certificate]trust.State{outgoing: trust.TrustedUnused, retired: trust.PhaseOut},
		},
		"nobody who is compromised": {
			domain: contract.ClientsDomain, retirement: trust.RetireExpired, state: evidence.Running, distrust: true,
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
			node.State = c.state

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

// An issuer may have another key, while the CA certificate lasts longer than anything that was signed with the old one.
func TestTheOldCAOfAnIssuerEndsWithTheLastOfItsCertificates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after    time.Duration
		issuance trust.Issuance
		but      func(w *world, c *evidence.Cluster)
		ended    bool
	}{
		"all have expired":     {after: time.Minute, issuance: trust.Offered, ended: true},
		"they have not":        {after: -time.Minute, issuance: trust.Offered},
		"the operator signs":   {after: time.Minute, issuance: trust.Held},
		"the operator has one": {time.Minute, trust.Offered, func(w *world, c *evidence.Cluster) { c.Operator = w.lasting(t) }, false},
		"a process presents another one": {time.Minute, trust.Offered, func(w *world, c *evidence.Cluster) {
			w.present(w.lasting(t)...)
			w.publish(3, id(w.outgoing.Certificate()))
			w.load()
			c.Nodes[0].Report = w.node.Report
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			end := w.node.Presents[0].NotAfter
			cluster := evidence.Cluster{
				Now: end.Add(c.after), Own: contract.ClusterDomain, Agents: roles.Agent(), Nodes: []evidence.Node{w.node},
				Policy: trust.Policy{Issuance: c.issuance},
			}
			if c.but != nil {
				c.but(w, &cluster)
			}

			s := evidence.Snapshot(cluster, w.domain, evidence.Known(cluster, w.domain))

			want := map[trust.AnchorID]time.Time{
				evidence.AnchorID(w.outgoing.Certificate()): w.outgoing.Certificate().NotAfter,
				evidence.AnchorID(w.incoming.Certificate()): w.incoming.Certificate().NotAfter,
			}
			if c.ended {
				want[evidence.AnchorID(w.outgoing.Certificate())] = end
			}
			for _, anchor := range s.Anchors {
				if !anchor.NotAfter.Equal(want[anchor.ID]) {
					t.Errorf("anchor %s ends at %s, want %s", anchor.Name, anchor.NotAfter, want[anchor.ID])
				}
			}
		})
	}
}

// lasting is a certificate of the outgoing CA that lasts longer than that of the node.
func (w *world) lasting(tb testing.TB) []*x509.Certificate {
	tb.Helper()
	cert, err := w.outgoing.Issue(w.node.Presents[0].PublicKey, pki.LeafSpec{
		Subject: pki.Subject{CommonName: "node"}, Usages: pki.BothUsages(), Validity: 5 * time.Hour, Now: now(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return []*x509.Certificate{cert}
}

func storedIn(s trust.Snapshot, cert *x509.Certificate) trust.State {
	for _, anchor := range s.Anchors {
		if anchor.ID == evidence.AnchorID(cert) {
			return anchor.Stored
		}
	}
	return trust.Absent
}
