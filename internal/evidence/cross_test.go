package evidence_test

import (
	"crypto/x509"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// dynasty are authorities of one domain that were made one after the other.
type dynasty []pki.Authority

func newDynasty(t *testing.T, size int) dynasty {
	t.Helper()
	var d dynasty
	for i := range size {
		ca, err := pki.NewCA(pki.CASpec{
			Subject: pki.Subject{CommonName: "v" + strconv.Itoa(i)}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256},
			Validity: time.Duration(24+i) * time.Hour, Now: now().Add(time.Duration(i-size) * time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		d = append(d, ca)
	}
	return d
}

// by is the cross certificate in which one signs another.
func (d dynasty) by(t *testing.T, issuer, subject int) *x509.Certificate {
	t.Helper()
	cross, err := pki.CrossSign(d[issuer], d[subject].Certificate(), now())
	if err != nil {
		t.Fatal(err)
	}
	return cross
}

func (d dynasty) certificates() []*x509.Certificate {
	certs := make([]*x509.Certificate, 0, len(d))
	for _, ca := range d {
		certs = append(certs, ca.Certificate())
	}
	return certs
}

func (d dynasty) keys(members ...int) []trust.KeyID {
	keys := make([]trust.KeyID, 0, len(members))
	for _, i := range members {
		keys = append(keys, key(d[i].Certificate()))
	}
	return keys
}

// vouchedFor is the last of the dynasty as the snapshot has it.
func (d dynasty) vouchedFor(t *testing.T, distrusted bool, crosses []*x509.Certificate) trust.Anchor {
	t.Helper()
	w := newWorld(t)
	last := d[len(d)-1]
	w.domain.Authority.Certificate, w.domain.Authority.Pending, w.domain.Authority.Keys = last.Certificate(), nil, d
	w.domain.Authority.Crosses, w.domain.Authority.Published = crosses, d.certificates()
	w.domain.Authority.Distrust = distrusted
	return anchorOf(t, w.snapshotOf(evidence.Cluster{Now: now()}), last)
}

func TestWhoVouchesForAnAuthority(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, 3)
	direct, before, first := d.by(t, 1, 2), d.by(t, 0, 1), d.by(t, 0, 2)
	for name, c := range map[string]struct {
		crosses []*x509.Certificate
		want    []trust.KeyID
		lacks   bool
	}{
		"nobody":                                  {nil, nil, false},
		"the one before it":                       {[]*x509.Certificate{direct}, d.keys(1), false},
		"and by that one the first":               {[]*x509.Certificate{before, direct}, d.keys(1, 0), false},
		"in one row, whatever else there is":      {[]*x509.Certificate{first, before, direct}, d.keys(1, 0), false},
		"the first, where that is all":            {[]*x509.Certificate{first, before}, d.keys(0), false},
		"of two without a row the newer":          {[]*x509.Certificate{first, direct}, d.keys(1), true},
		"the longest row, though it is no newer":  {[]*x509.Certificate{first, d.by(t, 1, 0), direct}, d.keys(0, 1), false},
		"nobody by a row that never leads to it":  {[]*x509.Certificate{before}, nil, false},
		"nobody twice, where two have each other": {[]*x509.Certificate{direct, before, d.by(t, 1, 0), d.by(t, 2, 1)}, d.keys(1, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			anchor := d.vouchedFor(t, false, c.crosses)
			var got []trust.KeyID
			for _, cross := range anchor.Cross {
				got = append(got, cross.Issuer)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (anchor.NoCross != "") != c.lacks {
				t.Errorf("a CA that cannot cross-sign is named as %q", anchor.NoCross)
			}
		})
	}
}

func TestARowEndsWithItsFirstLink(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, 3)
	anchor := d.vouchedFor(t, true, []*x509.Certificate{d.by(t, 1, 2), d.by(t, 0, 1)})
	for i, cross := range anchor.Cross {
		if want := d[1-i].Certificate().NotAfter; !cross.NotAfter.Equal(want) || !cross.Distrusted {
			t.Errorf("by v%d until %s, distrusted %t; want until %s", 1-i, cross.NotAfter, cross.Distrusted, want)
		}
	}
}

func TestARowIsNoLongerThanVerifiersFollow(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, pki.MaxCrosses+2)
	var crosses []*x509.Certificate
	for i := range len(d) - 1 {
		crosses = append(crosses, d.by(t, i, i+1))
	}
	if anchor := d.vouchedFor(t, false, crosses); len(anchor.Cross) != pki.MaxCrosses {
		t.Errorf("%d cross-sign it, want %d", len(anchor.Cross), pki.MaxCrosses)
	}
}

// Peers may have loaded nothing but the first authority, and verify members by that row alone.
func TestOfTwoRowsThatAreTooLongTheOneThatIsPresentedStays(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, pki.MaxCrosses+2)
	present, givenUp := pki.MaxCrosses, pki.MaxCrosses+1
	crosses := []*x509.Certificate{d.by(t, givenUp, present), d.by(t, present-1, givenUp)}
	sent := []*x509.Certificate{leaf(t, d[present])}
	for i := present; i > 0; i-- {
		sent = append(sent, d.by(t, i-1, i))
	}
	for name, presented := range map[string][]*x509.Certificate{"as they are": sent, "until they were signed again": resigned(t, d, sent)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.domain.Authority.Certificate, w.domain.Authority.Pending, w.domain.Authority.Keys = d[present].Certificate(), nil, d
			w.domain.Authority.Crosses, w.domain.Authority.Published = append(slices.Clone(crosses), sent[1:]...), d.certificates()
			w.present(presented...)
			if anchor := anchorOf(t, w.snapshot(), d[present]); !isCrossSigned(anchor, d.keys(0)...) {
				t.Errorf("cross-signed by %+v, want the first among them", anchor.Cross)
			}
			w.present(leaf(t, d[present]))
			if anchor := anchorOf(t, w.snapshot(), d[present]); !isCrossSigned(anchor, d.keys(givenUp)...) {
				t.Errorf("cross-signed by %+v where none is presented, want the newest among them", anchor.Cross)
			}
		})
	}
}

func TestAChainThroughWhatIsTrustedIsPreferredToThePresentedOne(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, 3)
	w := newWorld(t)
	byTrusted, byForgotten := d.by(t, 0, 2), d.by(t, 1, 2)
	known := dynasty{d[0], d[2]}
	w.domain.Authority.Certificate, w.domain.Authority.Pending, w.domain.Authority.Keys = d[2].Certificate(), nil, known
	w.domain.Authority.Crosses, w.domain.Authority.Published = []*x509.Certificate{byTrusted, byForgotten}, known.certificates()
	w.present(leaf(t, d[2]), byForgotten)
	if anchor := anchorOf(t, w.snapshot(), d[2]); !isCrossSigned(anchor, d.keys(0)...) {
		t.Errorf("cross-signed by %+v, want the one that is trusted", anchor.Cross)
	}
}

// resigned are the certificates of a chain with each cross certificate signed once more.
func resigned(t *testing.T, d dynasty, chain []*x509.Certificate) []*x509.Certificate {
	t.Helper()
	again := chain[:1:1]
	for i := len(chain) - 1; i > 0; i-- {
		again = append(again, d.by(t, i-1, i))
	}
	return again
}

func isCrossSigned(anchor trust.Anchor, keys ...trust.KeyID) bool {
	return !slices.ContainsFunc(keys, func(key trust.KeyID) bool {
		return !slices.ContainsFunc(anchor.Cross, func(c trust.Cross) bool { return c.Issuer == key })
	})
}

func anchorOf(t *testing.T, s trust.Snapshot, ca pki.Authority) trust.Anchor {
	t.Helper()
	i := slices.IndexFunc(s.Anchors, func(a trust.Anchor) bool { return a.ID == evidence.AnchorID(ca.Certificate()) })
	if i < 0 {
		t.Fatalf("%s is not among the anchors", ca.Certificate().Subject)
	}
	return s.Anchors[i]
}

func TestWhatIsSentAlongIsARowAndIsReadAsOne(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, 3)
	direct, before := d.by(t, 1, 2), d.by(t, 0, 1)
	wanted := trust.Identity{Signer: d.keys(2)[0], Cross: slices.Sorted(slices.Values(d.keys(0, 1)))}
	sent := evidence.Crosses(d.certificates(), now(), wanted, []*x509.Certificate{before, d.by(t, 0, 2), direct})
	if len(sent) != 2 || !sent[0].Equal(direct) || !sent[1].Equal(before) {
		t.Fatalf("%d are sent, want one row", len(sent))
	}
	w := newWorld(t)
	w.domain.Authority.Published = d.certificates()
	w.present(append([]*x509.Certificate{leaf(t, d[2])}, sent...)...)
	if diff := cmp.Diff(wanted, w.member(t).Published.Identity); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, anchor := range d.certificates() {
		if err := pki.Verify(append([]*x509.Certificate{leaf(t, d[2])}, sent...), []*x509.Certificate{anchor}, now()); err != nil {
			t.Errorf("who knows v%d alone: %v", i, err)
		}
	}
	wanted.Cross = d.keys(1)
	if sent := evidence.Crosses(d.certificates(), now(), wanted, []*x509.Certificate{before, direct}); len(sent) != 1 || !sent[0].Equal(direct) {
		t.Errorf("%d are sent, want the one that is asked for", len(sent))
	}
}

// A user's CA may have been renewed under its key with another subject; nobody remembers
// the certificate before, and who has pinned it is served as long as it lasts.
func TestWhatVouchesByTheVeryKeyNeedsNobodyWhoRemembersIt(t *testing.T) {
	t.Parallel()
	one := ca(t, "one")
	two, err := pki.SelfSign(one.Key(), pki.CASpec{Subject: pki.Subject{CommonName: "two"}, Validity: time.Hour, Now: now()})
	if err != nil {
		t.Fatal(err)
	}
	cross := dynasty{one, two}.by(t, 0, 1)
	want := []trust.KeyID{key(one.Certificate())}
	anchor := dynasty{two}.vouchedFor(t, false, []*x509.Certificate{cross})
	w := newWorld(t)
	w.domain.Authority.Published = append(w.domain.Authority.Published, two.Certificate())
	w.present(leaf(t, two), cross)
	identity := w.member(t).Published.Identity
	sent := evidence.Crosses([]*x509.Certificate{two.Certificate()}, now(), trust.Identity{Signer: key(two.Certificate()), Cross: want}, []*x509.Certificate{cross})
	if len(anchor.Cross) != 1 || anchor.Cross[0].Issuer != want[0] || len(sent) != 1 || !slices.Equal(identity.Cross, want) {
		t.Errorf("cross-signed by %+v, %d are sent along and %v are read; want %v", anchor.Cross, len(sent), identity.Cross, want)
	}
}

// Whoever takes an authority over as it is may know nothing of those before it.
func TestARowOfAuthoritiesThatNobodyRemembersIsReadAsItWas(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, 3)
	row := []*x509.Certificate{d.by(t, 1, 2), d.by(t, 0, 1)}
	last := d[2].Certificate()
	anchor := d[2:].vouchedFor(t, false, row)
	if len(anchor.Cross) != 2 || anchor.Cross[0].Issuer != key(d[1].Certificate()) {
		t.Fatalf("cross-signed by %+v, want the previous CA and another", anchor.Cross)
	}
	w := newWorld(t)
	w.domain.Authority.Published, w.domain.Authority.Crosses = append(w.domain.Authority.Published, last), row
	w.present(leaf(t, d[2]), row[0], row[1])
	want := []trust.KeyID{anchor.Cross[0].Issuer, anchor.Cross[1].Issuer}
	slices.Sort(want)
	identity := w.member(t).Published.Identity
	if diff := cmp.Diff(trust.Identity{Signer: key(last), Cross: want}, identity); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sent := evidence.Crosses([]*x509.Certificate{last}, now(), identity, row); !slices.EqualFunc(sent, row, (*x509.Certificate).Equal) {
		t.Errorf("%d are sent along, want the row", len(sent))
	}
}

func TestAnIntermediateOfAUsersChainVouchesForNobody(t *testing.T) {
	t.Parallel()
	d := newDynasty(t, 2)
	w := newWorld(t)
	w.domain.Authority.Published = append(w.domain.Authority.Published, d[1].Certificate())
	w.present(leaf(t, d[1]), d.by(t, 0, 1))
	if identity := w.member(t).Published.Identity; len(identity.Cross) > 0 {
		t.Errorf("%v cross-sign it", identity.Cross)
	}
}
