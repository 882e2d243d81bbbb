package evidence_test

import (
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/evidence"
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
		"nothing runs that could have it":       {change: func(w *world) { w.node.Witness, w.node.Report = evidence.NoProcess, contract.TLSReport{} }},
		"the node is between two mounts":        {change: func(w *world) { w.node.Report.Mounted = nil }},
		"somebody is silent":                    {others: []evidence.Node{{Name: "my-dual-1", Witness: evidence.Silent}}, keeps: true},
		"the node is silent":                    {change: func(w *world) { w.node.Witness = evidence.Silent }, keeps: true},
		"the node says to have mounted it":      {change: func(w *world) { w.node.Report.Mounted = &w.node.Published }, keeps: true},
		"the node may still load it":            {change: func(w *world) { w.node.Report.Loading = []contract.Publication{w.node.Published} }, keeps: true},
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
			for _, plane := range [][]trust.AnchorID{given.Data, given.Control} {
				if !slices.Contains(plane, trust.AnchorID(kept)) || slices.Contains(plane, vanished) != c.keeps {
					t.Errorf("it is given %+v", given)
				}
			}
		})
	}
}

// trusts makes the listener say that it trusts an anchor, too.
func (w *world) trusts(listener contract.Listener, anchor string) {
	said := w.node.Report.Roles[listener]
	said.Trusts = append(slices.Clone(said.Trusts), anchor)
	w.node.Report.Roles[listener] = said
}
