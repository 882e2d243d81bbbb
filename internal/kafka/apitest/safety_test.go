package apitest

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// Safety, as the world's own X.509 sees it: whatever a process presents verifies
// under whatever the one it talks to trusts, now and if either of them started
// again in this instant. Nothing here knows how the operator decides.

// holding is what a process presents and trusts at one moment.
type holding struct {
	// moment says which: now, or after a start in this instant.
	moment string
	// chain begins with the leaf. Nothing is presented without one.
	chain []*x509.Certificate
	// trust are the anchors; known are the leaves that are accepted, by their
	// fingerprints, whoever has signed them.
	trust []*x509.Certificate
	known []string
}

// talker is one side of a conversation. It holds one of its holdings, or comes to
// hold it without being asked.
type talker struct {
	name string
	// process is what starts again as a whole.
	process  string
	holdings []holding
}

// talk is one direction of a conversation: whom the verifier has to accept.
type talk struct {
	presenter, verifier talker
	usage               pki.Usage
}

// safety remembers what has been verified: of the many talks in a cluster most
// show the same certificates to the same trust.
type safety struct {
	accepted map[string]verdict
	names    map[*x509.Certificate]string
}

// verdict holds until one of the certificates ends.
type verdict struct {
	err   error
	until time.Time
}

func newSafety() *safety {
	return &safety{accepted: map[string]verdict{}, names: map[*x509.Certificate]string{}}
}

// breaches lists the talks in which somebody is refused, each once and sorted.
func (s *safety) breaches(talks []talk, now time.Time) []string {
	var found []string
	for i := range talks {
		t := &talks[i]
		for j := range t.presenter.holdings {
			for k := range t.verifier.holdings {
				presented, trusted := &t.presenter.holdings[j], &t.verifier.holdings[k]
				if t.presenter.process == t.verifier.process && presented.moment != trusted.moment {
					continue // one process is in one moment
				}
				if err := s.refusal(presented, trusted, t.usage, now); err != nil {
					found = append(found, fmt.Sprintf("%s (%s) is refused by %s (%s): it %s, and not %v",
						t.presenter.name, presented.moment, t.verifier.name, trusted.moment, said(stores{presented.chain, trusted.trust}), err))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// refusal says why the verifier does not accept the presenter. A leaf that has
// ended is refused by everybody, and anchors that have ended accept nobody: that
// is age, and not a matter of trust.
func (s *safety) refusal(presented, trusted *holding, usage pki.Usage, now time.Time) error {
	ended := func(cert *x509.Certificate) bool { return now.After(cert.NotAfter) }
	lives := func(cert *x509.Certificate) bool { return !ended(cert) }
	if len(presented.chain) == 0 || ended(presented.chain[0]) {
		return nil
	}
	if len(trusted.trust) > 0 && !slices.ContainsFunc(trusted.trust, lives) {
		return nil
	}
	if slices.Contains(trusted.known, s.name(presented.chain[0])) {
		return nil
	}
	key := s.namesOf(presented.chain) + "|" + s.namesOf(trusted.trust) + "|" + string(usage)
	if known, found := s.accepted[key]; found && !now.After(known.until) {
		return known.err
	}
	err := pki.Verify(presented.chain, trusted.trust, now, usage)
	s.accepted[key] = verdict{err: err, until: firstEnd(presented.chain, trusted.trust)}
	return err
}

func (s *safety) name(cert *x509.Certificate) string {
	name, known := s.names[cert]
	if !known {
		name = pki.FingerprintOf(cert).String()
		s.names[cert] = name
	}
	return name
}

func (s *safety) namesOf(certs []*x509.Certificate) string {
	names := make([]string, 0, len(certs))
	for _, cert := range certs {
		names = append(names, s.name(cert))
	}
	return strings.Join(names, ",")
}

// firstEnd is when the first of the certificates ends.
func firstEnd(lists ...[]*x509.Certificate) time.Time {
	var first time.Time
	for _, cert := range slices.Concat(lists...) {
		if first.IsZero() || cert.NotAfter.Before(first) {
			first = cert.NotAfter
		}
	}
	return first
}

// Proof that the oracle can fail, and does not when it must not.

// pairOfCAs are an old CA, the new one that replaces it, the cross certificate
// between them, and a leaf of each.
type pairOfCAs struct {
	old, new         pki.Authority
	cross            *x509.Certificate
	oldLeaf, newLeaf *x509.Certificate
}

func newPairOfCAs(t *testing.T) pairOfCAs {
	t.Helper()
	a := pairOfCAs{old: caNamed(t, "old", 100*authority.Day), new: caNamed(t, "new", 100*authority.Day)}
	var err error
	if a.cross, err = pki.CrossSign(a.old, a.new.Certificate(), start()); err != nil {
		t.Fatal(err)
	}
	a.oldLeaf, a.newLeaf = leafBy(t, a.old, "node", start()), leafBy(t, a.new, "node", start())
	return a
}

// leafBy is a leaf for servers and clients that ends after thirty days.
func leafBy(t *testing.T, ca pki.Authority, name string, now time.Time) *x509.Certificate {
	t.Helper()
	leaf, err := ca.Issue(newKey(t).Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: name}, Usages: pki.BothUsages(), Validity: 30 * authority.Day, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// shortCA ends after a day.
func shortCA(t *testing.T) *x509.Certificate {
	t.Helper()
	return caNamed(t, "short", authority.Day).Certificate()
}

func TestTheOracleTellsWhoIsRefused(t *testing.T) {
	t.Parallel()
	a := newPairOfCAs(t)
	oldOnly, newOnly := bundle(a.old.Certificate()), bundle(a.new.Certificate())
	both := bundle(a.old.Certificate(), a.new.Certificate())
	for name, c := range map[string]struct {
		presenter, verifier []holding
		process             string
		after               time.Duration
		refused             int
	}{
		"an old leaf by who trusts the old": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}}, verifier: []holding{{trust: oldOnly}},
		},
		"a new leaf by who trusts the old": {
			presenter: []holding{{chain: bundle(a.newLeaf)}}, verifier: []holding{{trust: oldOnly}}, refused: 1,
		},
		"a new leaf with its cross certificate by who trusts the old": {
			presenter: []holding{{chain: bundle(a.newLeaf, a.cross)}}, verifier: []holding{{trust: oldOnly}},
		},
		"a new leaf by who trusts both": {
			presenter: []holding{{chain: bundle(a.newLeaf)}}, verifier: []holding{{trust: both}},
		},
		"an old leaf by who trusts the new": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}}, verifier: []holding{{trust: newOnly}}, refused: 1,
		},
		"whoever trusts nobody refuses everybody": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}}, verifier: []holding{{}}, refused: 1,
		},
		"a leaf that is known by itself needs no anchor": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}}, verifier: []holding{{known: []string{pki.FingerprintOf(a.oldLeaf).String()}}},
		},
		"the verifier would be another one after a start": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}}, verifier: []holding{{trust: both}, {moment: "later", trust: newOnly}}, refused: 1,
		},
		"the presenter would be another one after a start": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}, {moment: "later", chain: bundle(a.newLeaf)}}, verifier: []holding{{trust: oldOnly}}, refused: 1,
		},
		"a process that talks to itself starts as a whole": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}, {moment: "later", chain: bundle(a.newLeaf)}},
			verifier:  []holding{{trust: oldOnly}, {moment: "later", trust: newOnly}}, process: "verifier",
		},
		"two processes do not": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}, {moment: "later", chain: bundle(a.newLeaf)}},
			verifier:  []holding{{trust: oldOnly}, {moment: "later", trust: newOnly}}, process: "presenter", refused: 2,
		},
		"a leaf that has ended is cut off by its age": {
			presenter: []holding{{chain: bundle(a.oldLeaf)}}, verifier: []holding{{trust: newOnly}}, after: 31 * authority.Day,
		},
		"anchors that have ended are no use by their age": {
			presenter: []holding{{chain: bundle(leafBy(t, a.new, "node", start().Add(90*authority.Day)))}}, verifier: []holding{{trust: bundle(shortCA(t))}}, after: 95 * authority.Day,
		},
		"nothing is presented": {presenter: []holding{{}}, verifier: []holding{{trust: oldOnly}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			talks := []talk{{
				presenter: talker{name: "presenter", process: c.process, holdings: c.presenter},
				verifier:  talker{name: "verifier", process: "verifier", holdings: c.verifier},
				usage:     pki.ServerAuth,
			}}
			if got := newSafety().breaches(talks, start().Add(c.after)); len(got) != c.refused {
				t.Errorf("%d refusals, want %d: %v", len(got), c.refused, got)
			}
		})
	}
}

func TestWhatTheOracleRemembersEndsWithTheCertificates(t *testing.T) {
	t.Parallel()
	old := caNamed(t, "old", 10*authority.Day)
	incoming := caNamed(t, "new", 100*authority.Day)
	cross, err := pki.CrossSign(old, incoming.Certificate(), start())
	if err != nil {
		t.Fatal(err)
	}
	talks := []talk{{
		presenter: talker{name: "presenter", holdings: []holding{{chain: bundle(leafBy(t, incoming, "node", start()), cross)}}},
		verifier:  talker{name: "verifier", process: "verifier", holdings: []holding{{trust: bundle(old.Certificate(), newCA(t).Certificate())}}},
		usage:     pki.ServerAuth,
	}}
	s := newSafety()

	before, after := s.breaches(talks, start()), s.breaches(talks, start().Add(11*authority.Day))

	if len(before) != 0 || len(after) != 1 {
		t.Errorf("refusals are %v and then %v, want none and then one: the cross certificate has ended", before, after)
	}
}

func TestTheOracleNamesBothSidesAndTheMoment(t *testing.T) {
	t.Parallel()
	a := newPairOfCAs(t)
	got := newSafety().breaches([]talk{{
		presenter: talker{name: "my-dual-0 replication-9091", holdings: []holding{{moment: "now", chain: bundle(a.newLeaf)}}},
		verifier:  talker{name: "my-dual-1 replication-9091", process: "b", holdings: []holding{{moment: "started again", trust: bundle(a.old.Certificate())}}},
		usage:     pki.ServerAuth,
	}}, start())

	want := "my-dual-0 replication-9091 (now) is refused by my-dual-1 replication-9091 (started again): "
	if len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("refusals are %q, want one that begins with %q", got, want)
	}
}
