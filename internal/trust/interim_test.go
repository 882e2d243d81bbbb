package trust

import (
	"slices"
	"testing"
)

// A leaf of the key that a member presents is verified until it presents none of it; from the key to come nothing goes back.
func TestAMemberMayBeGivenALeafOfTheKeyThatItPresents(t *testing.T) {
	t.Parallel()
	w := world("issued outside", budget{}, issuedOutside)
	for name, c := range map[string]struct {
		presents int8
		issuance Issuance
		want     []KeyID
	}{
		"it presents the outgoing key":                            {0, Offered, []KeyID{"keyA"}},
		"it presents the outgoing key, and the operator has keys": {0, Held, nil},
		"it presents the key to come":                             {1, Offered, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := allTrustBoth(&w)
			s.nodes[0].published.ident.signer = c.presents
			snapshot := w.observe(&s, 0)
			snapshot.Policy.Issuance = c.issuance

			p := Decide(snapshot)

			if got := p.Interim["node 0"]; !slices.Equal(got, c.want) || p.Publications["node 0"].Identity.Signer != "keyB" {
				t.Errorf("it may be given %q, want %q; planned is %q", got, c.want, p.Publications["node 0"].Identity.Signer)
			}
		})
	}
}

func TestAMemberIsGivenNoLeafOfAnAnchorThatHasEnded(t *testing.T) {
	t.Parallel()
	w := world("issued outside", budget{}, issuedOutside)
	s := allTrustBoth(&w)
	snapshot := w.observe(&s, 0)
	for i := range snapshot.Anchors {
		if snapshot.Anchors[i].Key == "keyA" {
			snapshot.Anchors[i].NotAfter = snapshot.Now
		}
	}

	if got := Decide(snapshot).Interim["node 0"]; len(got) > 0 {
		t.Errorf("it may be given %q", got)
	}
}

// allTrustBoth is a replacement of A by B in which every node presents A and trusts both.
func allTrustBoth(w *rules) state {
	s := w.first()
	s.issuing, s.app, s.reader = 1, 3, 3
	s.stored[1] = stateIndex(TrustedUnused)
	for i := range w.nodes {
		n := &s.nodes[i]
		n.published.data, n.published.control = 3, 3
		n.mounted = n.published
		w.start(n)
	}
	return s
}
