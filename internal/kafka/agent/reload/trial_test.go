package reload_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// twins is a world with a second authority of the old one's name and another key.
type twins struct {
	*world

	twin   pki.Authority
	leaves []stores.Identity // of either, for proofs
	// renewed is a leaf of the twin that the node can present.
	renewed stores.Identity
}

func newTwins(t *testing.T, wish func(*twins) stores.Matched) *twins {
	t.Helper()
	now := time.Now()
	w := &twins{twin: agenttest.Authority(t, "ca v0", now)}
	w.renewed = agenttest.Leaf(t, w.twin, "my-cluster-kafka", now)
	newWorld(t, func(inner *world) stores.Matched {
		w.world = inner
		w.leaves = []stores.Identity{agenttest.Proof(t, w.old, now), agenttest.Proof(t, w.twin, now)}
		return wish(w)
	})
	return w
}

func (w *twins) other() *x509.Certificate { return w.twin.Certificate() }

// publishTo is what is mounted with leaves for proofs.
func (w *twins) publishTo(identity stores.Identity, proofs []stores.Identity, trusts ...*x509.Certificate) stores.Matched {
	m := w.publish(identity, trusts...)
	m.Proofs = proofs
	return m
}

// apart gives the listener of clients another anchor than the others have.
func apart(m stores.Matched, anchor *x509.Certificate) stores.Matched {
	i := slices.IndexFunc(m.Listeners, func(l stores.Listener) bool { return l.Name == tlsLow })
	m.Listeners[i].Trusts = []*x509.Certificate{anchor}
	m.Listeners[i].Starts = m.Listeners[i].Trusts
	return m
}

// firstOf are started with the old authority alone.
func firstOf(w *twins) stores.Matched { return first(w.world) }

// setting is the location of a listener's trust store.
func setting(l publication.Role) string { return stores.TrustStore().LocationSetting(l) }

func TestAnchorsOfOneNameAreToldApartByLeaves(t *testing.T) {
	t.Parallel()
	w := newTwins(t, firstOf)
	for _, mounted := range []stores.Matched{
		w.publishTo(w.leaf, w.leaves, w.before(), w.other()),
		w.publishTo(w.renewed, w.leaves, w.before(), w.other()),
		w.publishTo(w.renewed, w.leaves, w.other()),
		w.publishTo(w.renewed, w.leaves, w.before(), w.other()),
		w.publishTo(w.leaf, w.leaves, w.before(), w.other()),
		w.publishTo(w.leaf, w.leaves, w.before()),
	} {
		if outcome := w.step(t, mounted); !outcome.Complete || outcome.Failure != "" {
			t.Errorf("outcome %+v, want all loaded and proven", outcome)
		}
		w.runsOn(t, mounted)
	}
}

func TestServerThatTookOnlyTheNamesIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		publish func(*twins) stores.Matched
		// problem is what the failure says; known what the listener is said to trust.
		problem string
		known   func(*twins) []*x509.Certificate
	}{
		"an anchor is added": {
			func(w *twins) stores.Matched { return w.publishTo(w.leaf, w.leaves, w.before(), w.other()) },
			"refuses a leaf of the anchor", func(*twins) []*x509.Certificate { return nil },
		},
		"an anchor takes the other's place": {
			func(w *twins) stores.Matched { return apart(w.publishTo(w.leaf, w.leaves, w.before()), w.other()) },
			"a leaf of the anchor", func(w *twins) []*x509.Certificate { return []*x509.Certificate{w.before()} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, firstOf)
			w.hollow = []string{setting(tlsLow)}
			mounted := c.publish(w)
			outcome := w.step(t, mounted)
			if outcome.Complete || !outcome.Refused || !strings.Contains(outcome.Failure, string(tlsLow)+" ") || !strings.Contains(outcome.Failure, c.problem) {
				t.Errorf("outcome %+v, want a failure that names %s", outcome, tlsLow)
			}
			if got := w.States()[tlsLow].Trusts; !slices.EqualFunc(got, c.known(w), (*x509.Certificate).Equal) {
				t.Errorf("%s is said to trust %v", tlsLow, agenttest.Fingerprints(got...))
			}
			if got := w.States()[contract.ReplicationListener].Trusts; !slices.EqualFunc(got, mounted.Listeners[0].Trusts, (*x509.Certificate).Equal) {
				t.Errorf("the listener that has loaded is said to trust %v", agenttest.Fingerprints(got...))
			}
			w.hollow = nil
			if outcome := w.step(t, mounted); !outcome.Complete {
				t.Errorf("outcome %+v, want it loaded once it is", outcome)
			}
			w.runsOn(t, mounted)
		})
	}
}

func TestAnchorIsWithdrawnOnlyWhenItsLeafIsRefused(t *testing.T) {
	t.Parallel()
	both := func(w *twins) stores.Matched {
		return w.publishTo(w.renewed, w.leaves, w.before(), w.other())
	}
	w := newTwins(t, both)
	w.step(t, both(w))
	w.hollow = []string{setting(contract.ReplicationListener)}
	mounted := w.publishTo(w.renewed, nil, w.other())
	outcome := w.step(t, mounted)
	if outcome.Complete || !outcome.Refused || !strings.Contains(outcome.Failure, "still accepts a leaf of the anchor "+agenttest.Fingerprints(w.before())[0]) {
		t.Errorf("outcome %+v, want a failure that names the withdrawn anchor", outcome)
	}
	if state := w.States()[contract.ReplicationListener]; state.Known() {
		t.Errorf("the listener is said to have %+v, want nothing: it names one and accepts two", state.Report())
	}
}

func TestWithoutALeafOfAnAnchorNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		started, published func(*twins) stores.Matched
		missing            func(*twins) *x509.Certificate
	}{
		"that is added": {
			firstOf, func(w *twins) stores.Matched { return w.publishTo(w.leaf, w.leaves[:1], w.before(), w.other()) },
			func(w *twins) *x509.Certificate { return w.other() },
		},
		"that is withdrawn": {
			func(w *twins) stores.Matched { return w.publishTo(w.renewed, nil, w.before(), w.other()) },
			func(w *twins) stores.Matched { return w.publishTo(w.renewed, nil, w.other()) },
			func(w *twins) *x509.Certificate { return w.before() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, c.started)
			mounted := c.published(w)
			outcome := w.step(t, mounted)
			if want := "no leaf of the anchor " + agenttest.Fingerprints(c.missing(w))[0]; outcome.Complete || !outcome.Refused || !strings.Contains(outcome.Failure, want) {
				t.Errorf("outcome %+v, want %q", outcome, want)
			}
			for listener, state := range w.States() {
				if state.Known() != (listener == open) {
					t.Errorf("%s is said to have %+v", listener, state.Report())
				}
			}
			w.restart(mounted)
			if outcome := w.step(t, mounted); !outcome.Complete || len(w.log) > 0 {
				t.Errorf("outcome %+v after %v, want a start to be proof enough", outcome, w.log)
			}
			w.runsOn(t, mounted)
		})
	}
}

// TestNodesOwnLeavesProveWhereNobodyHoldsAKey takes a node through a replacement by
// restarts first, since there is no leaf of the coming anchor yet.
func TestNodesOwnLeavesProveWhereNobodyHoldsAKey(t *testing.T) {
	t.Parallel()
	both := func(w *twins) stores.Matched { return w.publishTo(w.leaf, nil, w.before(), w.other()) }
	w := newTwins(t, both)
	for _, mounted := range []stores.Matched{
		both(w), w.publishTo(w.renewed, nil, w.before(), w.other()), w.publishTo(w.renewed, nil, w.other()),
	} {
		if outcome := w.step(t, mounted); !outcome.Complete {
			t.Errorf("outcome %+v, want it proven by the leaves that the node has and had", outcome)
		}
		w.runsOn(t, mounted)
	}
}

func TestLeafIsOfferedWithoutItsCrossCertificate(t *testing.T) {
	t.Parallel()
	w := newTwins(t, firstOf)
	cross, err := pki.CrossSign(w.old, w.other(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	renewed := w.renewed
	renewed.Chain = append(renewed.Chain, cross)
	w.hollow = []string{setting(tlsLow)}
	outcome := w.step(t, w.publishTo(renewed, nil, w.before(), w.other()))
	if outcome.Complete || !strings.Contains(outcome.Failure, "tls-9093 refuses a leaf of the anchor") || w.States()[tlsLow].Known() {
		t.Errorf("outcome %+v, want no proof: the old anchor alone accepts the leaf with its cross certificate", outcome)
	}
}

func TestAnchorsOfDifferentNamesNeedNoMoreHandshakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	mounted := w.publish(w.leaf, w.before(), w.after())
	w.step(t, first(w))
	if len(w.looks) > 0 {
		t.Errorf("%d handshakes to know a start", len(w.looks))
	}
	w.step(t, mounted)
	want := slices.Repeat([]string{w.leaf.Fingerprint()}, 4)
	if !slices.Equal(w.looks, want) {
		t.Errorf("offered %v, want the node's own leaf once to each listener", w.looks)
	}
}

func TestAnchorsOfOneNameThatStayNeedNoMoreHandshakes(t *testing.T) {
	t.Parallel()
	both := func(w *twins) stores.Matched { return w.publishTo(w.leaf, w.leaves, w.before(), w.other()) }
	w := newTwins(t, both)
	w.step(t, both(w))
	renewed := agenttest.Leaf(t, w.old, "my-cluster-kafka", time.Now())
	mounted := w.publishTo(renewed, w.leaves, w.before(), w.other(), w.after())
	if outcome := w.step(t, mounted); !outcome.Complete {
		t.Errorf("outcome %+v", outcome)
	}
	w.runsOn(t, mounted)
	if want := slices.Repeat([]string{renewed.Fingerprint()}, 4); !slices.Equal(w.looks, want) {
		t.Errorf("offered %v, want the node's own leaf once to each listener", w.looks)
	}
}

func TestNoLeafIsAskedForWhereNoneCanTell(t *testing.T) {
	t.Parallel()
	past := agenttest.Authority(t, "ca v0", time.Now().Add(-48*time.Hour)).Certificate()
	for name, c := range map[string]struct {
		started, published func(*twins) []*x509.Certificate
	}{
		"an anchor that has expired is withdrawn": {
			func(w *twins) []*x509.Certificate { return []*x509.Certificate{w.before(), past} },
			func(w *twins) []*x509.Certificate { return []*x509.Certificate{w.before()} },
		},
		"no anchor of that name is left": {
			func(w *twins) []*x509.Certificate { return []*x509.Certificate{w.before(), w.other(), w.after()} },
			func(w *twins) []*x509.Certificate { return []*x509.Certificate{w.after()} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, func(w *twins) stores.Matched { return w.publish(w.next, c.started(w)...) })
			mounted := w.publish(w.next, c.published(w)...)
			if outcome := w.step(t, mounted); !outcome.Complete {
				t.Errorf("outcome %+v, want it loaded", outcome)
			}
			w.runsOn(t, mounted)
		})
	}
}

func TestRenewedCertificateOfOneKeyNeedsNoProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	renewed, err := pki.RenewCA(w.before(), w.old.Key(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	mounted := w.publish(w.leaf, renewed.Certificate())
	if outcome := w.step(t, mounted); !outcome.Complete {
		t.Errorf("outcome %+v, want it loaded: every leaf verifies under either", outcome)
	}
	w.runsOn(t, mounted)
}

func TestWhatSomebodyElseSetProvesNothing(t *testing.T) {
	t.Parallel()
	remove := func(w *twins) { w.apply([]local.Change{{Name: setting(tlsLow)}}) }
	stick := func(w *twins) { w.stuck = []string{setting(tlsLow)} }
	for name, c := range map[string]struct {
		meddle func(*twins)
		// complete is true when the listener still has what is mounted; trusts is what
		// it is to be said to trust.
		complete bool
		trusts   func(*twins) *x509.Certificate
	}{
		"it goes back to what it was started with, and the listener does not": {
			func(w *twins) { stick(w); remove(w) }, true, (*twins).other,
		},
		"it is put back, and the listener is not": {
			func(w *twins) {
				remove(w)
				stick(w)
				w.apply([]local.Change{{Name: setting(tlsLow), Value: new(directory + "/tls-9093-trust-b.pem")}})
			}, false, (*twins).before,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, firstOf)
			mounted := apart(w.publishTo(w.leaf, w.leaves, w.before()), w.other())
			w.step(t, mounted)
			w.log = nil
			c.meddle(w)
			if outcome := w.step(t, mounted); outcome.Complete != c.complete || c.complete != (len(w.log) == 0) {
				t.Errorf("outcome %+v after %v, want complete = %t", outcome, w.log, c.complete)
			}
			if got, want := w.States()[tlsLow].Trusts, []*x509.Certificate{c.trusts(w)}; !slices.EqualFunc(got, want, (*x509.Certificate).Equal) {
				t.Errorf("%s is said to trust %v, want what it accepts", tlsLow, agenttest.Fingerprints(got...))
			}
		})
	}
}

func TestForeignFileWithAKnownNameIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := newTwins(t, func(w *twins) stores.Matched {
		m := w.publishTo(w.leaf, w.leaves, w.before(), w.other())
		last := &m.Listeners[len(m.Listeners)-1]
		last.Trusts = []*x509.Certificate{w.before()}
		last.Starts = last.Trusts
		w.files["/somewhere/else.pem"] = pki.EncodeBundle(w.other())
		w.dynamic[setting(tlsLow)] = "/somewhere/else.pem"
		return m
	})
	mounted := w.publishTo(w.leaf, w.leaves, w.before(), w.other())
	mounted.Listeners[len(mounted.Listeners)-1].Trusts = []*x509.Certificate{w.before()}
	outcome := w.step(t, mounted)
	if !outcome.Complete || !slices.Equal(outcome.Tried, []publication.Role{tlsLow}) {
		t.Errorf("outcome %+v, want the one listener loaded: it accepts another anchor of that name", outcome)
	}
	w.runsOn(t, mounted)
}

func TestProofIsGivenOnce(t *testing.T) {
	t.Parallel()
	w := newTwins(t, firstOf)
	w.step(t, w.publishTo(w.leaf, w.leaves, w.before(), w.other()))
	w.looks = nil
	renewed := agenttest.Leaf(t, w.old, "my-cluster-kafka", time.Now())
	if outcome := w.step(t, w.publishTo(renewed, w.leaves, w.before(), w.other())); !outcome.Complete {
		t.Errorf("outcome %+v", outcome)
	}
	if want := slices.Repeat([]string{renewed.Fingerprint()}, 4); !slices.Equal(w.looks, want) {
		t.Errorf("offered %v, want the node's own leaf once to each listener", w.looks)
	}
}

func TestSilenceToALeafIsNoRefusal(t *testing.T) {
	t.Parallel()
	w := newTwins(t, firstOf)
	w.deaf = w.leaves[1].Fingerprint()
	outcome := w.step(t, w.publishTo(w.leaf, w.leaves, w.before(), w.other()))
	if outcome.Complete || outcome.Refused || w.States()[tlsLow].Known() {
		t.Errorf("outcome %+v, want a failure that passes, and nothing known", outcome)
	}
	w.deaf = ""
	mounted := w.publishTo(w.leaf, w.leaves, w.before(), w.other())
	if outcome := w.step(t, mounted); !outcome.Complete {
		t.Errorf("outcome %+v", outcome)
	}
	w.runsOn(t, mounted)
}
