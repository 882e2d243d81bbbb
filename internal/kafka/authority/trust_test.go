package authority_test

import (
	"crypto/x509"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// domain is the trust of a cluster in its authority, pass by pass.
type domain struct {
	t  *testing.T
	in authority.TrustInput
}

func newDomain(t *testing.T, current *x509.Certificate) *domain {
	t.Helper()
	return &domain{t: t, in: authority.TrustInput{Current: current, Now: noon()}}
}

func (d *domain) pass() authority.TrustDecision {
	decision := authority.DecideTrust(d.in)
	d.in.Stored = authority.Stored{Exists: true, Data: decision.Data}
	return decision
}

func (d *domain) want(decision authority.TrustDecision, states map[*x509.Certificate]authority.State) {
	d.t.Helper()
	got := map[pki.Fingerprint]authority.State{}
	for _, anchor := range decision.Anchors {
		got[pki.FingerprintOf(anchor.Certificate)] = anchor.State
	}
	want := map[pki.Fingerprint]authority.State{}
	for cert, state := range states {
		want[pki.FingerprintOf(cert)] = state
	}
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("states (-want +got):\n%s", diff)
	}
}

// peers makes pods that trust some anchors and present a leaf of one.
func peers(n int, issuedBy *x509.Certificate, trusts ...*x509.Certificate) []authority.Peer {
	var out []authority.Peer
	for range n {
		peer := authority.Peer{Name: "pod", Known: true, IssuedBy: pki.FingerprintOf(issuedBy)}
		for _, cert := range trusts {
			peer.Trusts = append(peer.Trusts, pki.FingerprintOf(cert))
		}
		out = append(out, peer)
	}
	return out
}

func unknownPeer() authority.Peer { return authority.Peer{Name: "silent"} }

func TestANewClusterEntersUntrustedAndIsThenInUse(t *testing.T) {
	t.Parallel()
	ca := other(t, "ca", noon()).Certificate()
	d := newDomain(t, ca)
	first := d.pass()
	d.want(first, map[*x509.Certificate]authority.State{ca: authority.Untrusted})
	name := pki.SHA1Name(ca)
	if diff := cmp.Diff([]string{name + ".crt", name + ".state"}, slices.Sorted(maps.Keys(first.Data))); diff != "" {
		t.Error(diff)
	}
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.Untrusted})
	d.in.Peers = peers(3, ca, ca)
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.TrustedInUseAll})
	steady := d.pass()
	if len(steady.Changes) != 0 {
		t.Errorf("changes in the steady state: %v", steady.Changes)
	}
	wantSameData(t, d.in.Stored.Data, steady.Data)
}

func TestTheStatesOfTheCurrentAnchorFollowThePeers(t *testing.T) {
	t.Parallel()
	ca := other(t, "ca", noon()).Certificate()
	old := other(t, "old", noon()).Certificate()
	tests := map[string]struct {
		state authority.State
		peers []authority.Peer
		want  authority.State
	}{
		"not trusted by one":              {authority.Untrusted, slices.Concat(peers(2, old, old, ca), peers(1, old, old)), authority.Untrusted},
		"one is silent":                   {authority.Untrusted, append(peers(2, old, old, ca), unknownPeer()), authority.Untrusted},
		"trusted by all":                  {authority.Untrusted, peers(3, old, old, ca), authority.TrustedUnused},
		"unused":                          {authority.TrustedUnused, peers(3, old, old, ca), authority.TrustedUnused},
		"used by one":                     {authority.TrustedUnused, slices.Concat(peers(1, ca, old, ca), peers(2, old, old, ca)), authority.TrustedInUseAny},
		"used by all":                     {authority.TrustedInUseAny, peers(3, ca, ca), authority.TrustedInUseAll},
		"used by all but a silent one":    {authority.TrustedInUseAny, append(peers(2, ca, ca), unknownPeer()), authority.TrustedInUseAny},
		"no longer used by all":           {authority.TrustedInUseAll, slices.Concat(peers(1, ca, ca), peers(2, old, old, ca)), authority.TrustedInUseAny},
		"no longer used, but still ours":  {authority.TrustedInUseAll, peers(3, old, old, ca), authority.TrustedInUseAll},
		"no peers":                        {authority.TrustedInUseAll, nil, authority.TrustedInUseAll},
		"used again while it phased out":  {authority.PhaseOut, peers(3, ca, ca), authority.TrustedInUseAll},
		"nobody is known":                 {authority.TrustedInUseAll, []authority.Peer{unknownPeer()}, authority.TrustedInUseAll},
		"no peers while it phased out":    {authority.PhaseOut, nil, authority.PhaseOut},
		"unused and one peer unknown":     {authority.TrustedUnused, append(peers(1, old, old, ca), unknownPeer()), authority.TrustedUnused},
		"a state that nobody knows":       {"NONSENSE", peers(3, old, old), authority.Untrusted},
		"a state with a line break after": {authority.TrustedInUseAll + "\n", peers(3, ca, ca), authority.TrustedInUseAll},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDomain(t, ca)
			d.in.Stored = authority.Stored{Exists: true, Data: map[string][]byte{
				pki.SHA1Name(ca) + ".crt":   pki.EncodeBundle(ca),
				pki.SHA1Name(ca) + ".state": []byte(tc.state),
			}}
			d.in.Peers = tc.peers
			d.want(d.pass(), map[*x509.Certificate]authority.State{ca: tc.want})
		})
	}
}

func TestADeletedTrustSecretOfARunningClusterComesBackTrusted(t *testing.T) {
	t.Parallel()
	ca, retained := other(t, "ca", noon()).Certificate(), other(t, "retained", noon()).Certificate()
	d := newDomain(t, ca)
	d.in.Retained = []*x509.Certificate{retained}
	d.in.Peers = append(peers(3, ca, ca, retained), unknownPeer())
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.TrustedUnused, retained: authority.TrustedUnused})
	d.in.Peers = peers(3, ca, ca)
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.TrustedInUseAll, retained: authority.PhaseOut})
}

func TestADeletedTrustSecretIsNoProofAgainstAPeer(t *testing.T) {
	t.Parallel()
	ca, old := other(t, "ca", noon()).Certificate(), other(t, "old", noon()).Certificate()
	d := newDomain(t, ca)
	d.in.Retained = []*x509.Certificate{old}
	d.in.Peers = append(peers(2, old, old, ca), peers(1, old, old)...)
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.Untrusted, old: authority.TrustedUnused})
}

func TestARetainedCertificateDoesNotEnterAgain(t *testing.T) {
	t.Parallel()
	ca, retained := other(t, "ca", noon()).Certificate(), other(t, "retained", noon()).Certificate()
	d := newDomain(t, ca)
	d.pass()
	d.in.Retained = []*x509.Certificate{retained}
	d.in.Peers = peers(3, ca, ca)
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.TrustedInUseAll})
}

// A renewed certificate has the key of the old one: each verifies what the other
// does, so one restart of each pod is enough, and nothing waits.
func TestARenewedCertificateTakesThePlaceOfTheOldOne(t *testing.T) {
	t.Parallel()
	ca := other(t, "ca", noon())
	old := ca.Certificate()
	renewedCA, err := pki.RenewCA(old, ca.Key(), 400*day, noon())
	if err != nil {
		t.Fatal(err)
	}
	renewed := renewedCA.Certificate()
	d := newDomain(t, old)
	d.in.Peers = peers(3, old, old)
	d.pass()
	d.pass()
	d.in.Current = renewed

	entered := d.pass()
	d.want(entered, map[*x509.Certificate]authority.State{renewed: authority.Untrusted, old: authority.TrustedInUseAll})
	if published := entered.Published(); len(published) != 1 || !published[0].Equal(renewed) {
		t.Errorf("%d anchors are published, want the renewed one alone", len(published))
	}
	if got := authority.TrustIn(renewed, entered.Anchors, d.in.Peers, noon()); got != authority.SignerTrusted {
		t.Error("leaves of the renewed certificate wait although every peer verifies them")
	}

	d.in.Peers = slices.Concat(peers(1, renewed, renewed), peers(2, old, old))
	d.want(d.pass(), map[*x509.Certificate]authority.State{renewed: authority.Untrusted, old: authority.TrustedInUseAny})

	d.in.Peers = peers(3, renewed, renewed)
	d.want(d.pass(), map[*x509.Certificate]authority.State{renewed: authority.TrustedInUseAll, old: authority.PhaseOut})
	last := d.pass()
	d.want(last, map[*x509.Certificate]authority.State{renewed: authority.TrustedInUseAll})
	if diff := cmp.Diff([]authority.StateChange{{Anchor: pki.FingerprintOf(old), From: authority.PhaseOut}}, last.Changes); diff != "" {
		t.Error(diff)
	}
}

func TestAnAnchorStaysWhileSomebodyMayNeedIt(t *testing.T) {
	t.Parallel()
	ca, old := other(t, "ca", noon()).Certificate(), other(t, "old", noon()).Certificate()
	tests := map[string]func(in *authority.TrustInput){
		"a peer presents a leaf of it":          func(in *authority.TrustInput) { in.Peers = slices.Concat(peers(2, ca, ca), peers(1, old, old, ca)) },
		"a peer is silent":                      func(in *authority.TrustInput) { in.Peers = append(peers(2, ca, ca), unknownPeer()) },
		"a peer does not trust the present one": func(in *authority.TrustInput) { in.Peers = append(peers(2, ca, ca), peers(1, ca, old)...) },
		"others present it": func(in *authority.TrustInput) {
			in.Peers = peers(3, ca, ca)
			in.Needed = []pki.Fingerprint{pki.FingerprintOf(old)}
		},
		"there are no peers": func(in *authority.TrustInput) { in.Peers = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDomain(t, ca)
			d.in.Stored = authority.Stored{Exists: true, Data: map[string][]byte{
				"old.crt":                   pki.EncodeBundle(old),
				"old.state":                 []byte(authority.PhaseOut),
				pki.SHA1Name(ca) + ".crt":   pki.EncodeBundle(ca),
				pki.SHA1Name(ca) + ".state": []byte(authority.TrustedInUseAll),
			}}
			change(&d.in)
			if got := len(d.pass().Anchors); got != 2 {
				t.Errorf("%d anchors are left, want both", got)
			}
		})
	}
}

func TestAnAnchorThatExpiredLeaves(t *testing.T) {
	t.Parallel()
	ca, expired := other(t, "ca", noon()).Certificate(), other(t, "expired", noon().Add(-400*day)).Certificate()
	d := newDomain(t, expired)
	d.pass()
	d.in.Current = ca
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.Untrusted})
}

// A silent peer may have said anything before; none of it counts.
func TestASilentPeerKeepsASupersededAnchorWhereItIs(t *testing.T) {
	t.Parallel()
	ca, old := other(t, "ca", noon()).Certificate(), other(t, "old", noon()).Certificate()
	silent := peers(1, ca, ca)[0]
	silent.Known = false
	d := newDomain(t, old)
	d.in.Peers = peers(3, old, old)
	d.pass()
	d.pass()
	d.in.Current = ca
	d.in.Peers = append(peers(2, ca, ca), silent)
	d.pass()
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.Untrusted, old: authority.TrustedInUseAll})
}

func TestAnAnchorThatPhasesOutIsNotPublished(t *testing.T) {
	t.Parallel()
	ca, old := other(t, "ca", noon()).Certificate(), other(t, "old", noon()).Certificate()
	decision := authority.TrustDecision{Anchors: []authority.Anchor{
		{Certificate: old, State: authority.PhaseOut}, {Certificate: ca, State: authority.TrustedInUseAll},
	}}
	if published := decision.Published(); len(published) != 1 || !published[0].Equal(ca) {
		t.Errorf("%d anchors are published, want the present one alone", len(published))
	}
}

func TestACertificateUnderTwoNamesIsOneAnchor(t *testing.T) {
	t.Parallel()
	text := pki.EncodeBundle(other(t, "ca", noon()).Certificate())
	anchors := authority.StoredAnchors(authority.Stored{Exists: true, Data: map[string][]byte{
		"a.crt": text, "a.state": []byte(authority.PhaseOut), "b.crt": text, "b.state": []byte(authority.Untrusted),
	}})
	if len(anchors) != 1 || anchors[0].State != authority.PhaseOut {
		t.Errorf("got %v", anchors)
	}
}

func TestAnExpiredNamesakeIsNoProofOfTrust(t *testing.T) {
	t.Parallel()
	ca := other(t, "ca", noon().Add(-400*day))
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 365*day, noon())
	if err != nil {
		t.Fatal(err)
	}
	anchors := []authority.Anchor{{Certificate: ca.Certificate()}, {Certificate: renewed.Certificate()}}
	if got := authority.TrustIn(renewed.Certificate(), anchors, peers(1, ca.Certificate(), ca.Certificate()), noon()); got != authority.SignerNotTrusted {
		t.Error("trust in an expired certificate passed for trust")
	}
}

func TestADamagedEntryIsNoAnchor(t *testing.T) {
	t.Parallel()
	ca := other(t, "ca", noon()).Certificate()
	d := newDomain(t, ca)
	d.in.Stored = authority.Stored{Exists: true, Data: map[string][]byte{"0.crt": []byte("garbage"), "0.state": []byte(authority.TrustedInUseAll)}}
	d.in.Peers = peers(1, ca, ca)
	d.want(d.pass(), map[*x509.Certificate]authority.State{ca: authority.Untrusted})
}

func TestASignerIsTrustedOnlyByProof(t *testing.T) {
	t.Parallel()
	ca, signer := other(t, "ca", noon()).Certificate(), other(t, "signer", noon()).Certificate()
	anchors := []authority.Anchor{{Certificate: ca}, {Certificate: signer}}
	tests := map[string]struct {
		peers []authority.Peer
		want  authority.SignerTrust
	}{
		"nobody is there":       {nil, authority.SignerTrusted},
		"everybody trusts it":   {peers(3, ca, ca, signer), authority.SignerTrusted},
		"one does not trust it": {append(peers(2, ca, ca, signer), peers(1, ca, ca)...), authority.SignerNotTrusted},
		"one is silent":         {append(peers(2, ca, ca, signer), unknownPeer()), authority.SignerNotTrusted},
	}
	for name, tc := range tests {
		if got := authority.TrustIn(signer, anchors, tc.peers, noon()); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func FuzzStoredAnchors(f *testing.F) {
	ca := other(f, "ca", noon()).Certificate()
	f.Add("a.crt", pki.EncodeBundle(ca), []byte("UNTRUSTED"))
	f.Add(".crt", []byte("x"), []byte(""))
	f.Fuzz(func(t *testing.T, key string, cert, state []byte) {
		t.Helper()

		in := authority.TrustInput{
			Stored:  authority.Stored{Exists: true, Data: map[string][]byte{key: cert, "a.state": state}},
			Current: ca, Now: noon(), Peers: peers(1, ca, ca),
		}
		decision := authority.DecideTrust(in)
		if !slices.ContainsFunc(decision.Anchors, func(a authority.Anchor) bool { return a.Certificate.Equal(ca) }) {
			t.Error("the current anchor is missing")
		}
	})
}
