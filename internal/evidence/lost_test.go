package evidence_test

import (
	"crypto/x509"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// An anchor that the node was given on top of the one that it trusts, and whose
// certificate is in no Secret.
const vanished = "vanished"

func TestAnAnchorThatNobodyHasAnyMoreIsNoLongerGivenToAnybody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world)
		others []evidence.Node
		keeps  bool
	}{
		"everybody has said what it has":        {},
		"nothing runs that could have it":       {change: func(w *world) { w.node.State, w.node.Report = evidence.Absent, publication.Report{} }},
		"the node is between two mounts":        {change: func(w *world) { w.node.Report.Mounted = nil }},
		"a node does not answer":                {others: []evidence.Node{{Name: "my-dual-1", State: evidence.Unknown}}, keeps: true},
		"the node is silent":                    {change: func(w *world) { w.node.State = evidence.Unknown }, keeps: true},
		"the node says to have mounted it":      {change: func(w *world) { w.node.Report.Mounted = &w.node.Published }, keeps: true},
		"the node may still load it":            {change: func(w *world) { w.node.Report.Loading = []publication.Publication{w.node.Published} }, keeps: true},
		"the node trusts it and brings no more": {change: func(w *world) { w.trusts(contract.ReplicationListener, vanished) }, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kept := id(w.outgoing.Certificate())
			w.publish(4, kept, vanished)
			if c.change != nil {
				c.change(w)
			}

			s := w.snapshotOf(evidence.Cluster{Now: now(), Nodes: append(c.others, w.node)})

			i := slices.IndexFunc(s.Members, func(m trust.Member) bool { return m.ID == "my-dual-0" })
			given := s.Members[i].Published
			for _, plane := range [][]trust.AnchorID{given.Main, given.Late} {
				if !slices.Contains(plane, trust.AnchorID(kept)) || slices.Contains(plane, vanished) != c.keeps {
					t.Errorf("it is given %+v", given)
				}
			}
		})
	}
}

// trusts makes the listener say that it trusts an anchor, too.
func (w *world) trusts(listener publication.Role, anchor string) {
	said := w.node.Report.Roles[listener]
	said.Trusts = append(slices.Clone(said.Trusts), anchor)
	w.node.Report.Roles[listener] = said
}

func TestAnAuthorityThatHasTakenTheFirstPlaceSignsWhileNobodySaysWhatNodesTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"after a rotation":  {change: func(*world) {}, want: "v1"},
		"before it is over": {change: func(w *world) { w.domain.Authority.Pending = &authority.Replacement{Incoming: w.incoming} }, want: "v0"},
		"a user's": {
			change: func(w *world) { w.domain.Authority.Chain = []*x509.Certificate{w.incoming.Certificate()} }, want: "v0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.node.State, w.node.Published, w.node.Presents = evidence.Unknown, publication.Publication{}, nil
			w.domain.Stored = nil
			w.domain.Authority = authority.Decision{
				Authority: w.incoming, Certificate: w.incoming.Certificate(), Keys: []pki.Authority{w.incoming, w.outgoing},
				Retired: []*x509.Certificate{w.outgoing.Certificate()}, Published: []*x509.Certificate{w.incoming.Certificate(), w.outgoing.Certificate()},
			}
			c.change(w)
			s := w.snapshot()
			// What is decided is written, and decided from again.
			for id, state := range trust.Decide(s).States {
				i := slices.IndexFunc(s.Anchors, func(a trust.Anchor) bool { return a.ID == id })
				s.Anchors[i].Stored = state
			}

			signer := trust.Decide(s).Signer

			if is := map[trust.AnchorID]string{evidence.AnchorID(w.incoming.Certificate()): "v1", evidence.AnchorID(w.outgoing.Certificate()): "v0"}; is[signer] != c.want {
				t.Errorf("%s signs, want %s", is[signer], c.want)
			}
		})
	}
}
