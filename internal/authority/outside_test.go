package authority_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

const bundleEntry = "bundle.pem"

// outsideWorld is a cluster whose leaves an issuer signs that holds the keys of the CAs.
func outsideWorld(tb testing.TB, cas ...pki.Authority) *world {
	tb.Helper()
	w := newWorld(tb)
	w.in.Spec = authority.Spec{Source: authority.Outside}
	w.in.Bundle = &authority.Bundle{Secret: "company-ca", Entry: bundleEntry}
	w.brings(certificatesOf(cas...)...)
	return w
}

// brings makes certificates those that the user names.
func (w *world) brings(certs ...*x509.Certificate) {
	w.bringsText(pki.EncodeBundle(certs...))
}

func (w *world) bringsText(text []byte) {
	w.in.Bundle.Stored = authority.Stored{Exists: true, Data: map[string][]byte{bundleEntry: text}}
}

func certificatesOf(cas ...pki.Authority) []*x509.Certificate {
	certs := make([]*x509.Certificate, 0, len(cas))
	for _, ca := range cas {
		certs = append(certs, ca.Certificate())
	}
	return certs
}

// offers makes a leaf of the CA the one that was issued last.
func (w *world) offers(ca pki.Authority) {
	w.tb.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		w.tb.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "cluster-operator"}, Usages: pki.BothUsages(), SANs: sans(w.tb, "operator"), Validity: 30 * day, Now: w.in.Now,
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	w.in.Bundle.Offered = append([]*x509.Certificate{leaf}, ca.Presents()...)
}

// runsOutside makes pods trust what was copied.
func (w *world) runsOutside() {
	w.in.Evidence = authority.Evidence{Dependants: []string{"Pod my-brk-0"}}
	w.trusts(w.decide().Certificate)
}

func generations(w *world) []string {
	annotations := w.in.CertSecret.Annotations
	return []string{annotations[authorities.CertGenerationAnnotation], annotations[authorities.KeyGenerationAnnotation]}
}

func bundleOf(tb testing.TB, stored authority.Stored) []*x509.Certificate {
	tb.Helper()
	certs, err := pki.ParseBundle(stored.Data[authority.CertKey])
	if err != nil {
		tb.Fatal(err)
	}
	return certs
}

func same(a, b []*x509.Certificate) bool { return slices.EqualFunc(a, b, (*x509.Certificate).Equal) }

func TestTheCAsOfAnIssuerAreCopiedOnce(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "company", noon())
	w := outsideWorld(t, ca)

	first := w.step()

	if diff := cmp.Diff([]authority.TransitionKind{authority.Copied}, kinds(first)); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if !same(bundleOf(t, w.in.CertSecret), certificatesOf(ca)) || first.settled.Key.Ours || w.in.KeySecret.Exists {
		t.Error("ca.crt is not what was brought, or a key Secret was written")
	}
	if diff := cmp.Diff([]string{"0", "0"}, generations(w)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	before := w.in.CertSecret
	if again := w.step(); len(kinds(again)) > 0 {
		t.Errorf("decided again: %v", kinds(again))
	}
	if diff := cmp.Diff(before, w.in.CertSecret); diff != "" {
		t.Errorf("written again (-before +after):\n%s", diff)
	}
}

func TestTheHashOfABundleDoesNotDependOnItsOrder(t *testing.T) {
	t.Parallel()
	one, two := pkitest.CA(t, "one", noon()), pkitest.CA(t, "two", noon())
	w := outsideWorld(t, one, two)
	w.step()
	before := w.in.CertSecret

	w.brings(two.Certificate(), one.Certificate(), two.Certificate())
	if again := w.step(); len(kinds(again)) > 0 {
		t.Errorf("decided again: %v", kinds(again))
	}

	if diff := cmp.Diff(before, w.in.CertSecret); diff != "" {
		t.Errorf("written again (-before +after):\n%s", diff)
	}
}

func TestANewKeyIsTrustedBesideTheOldOneUntilThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	old, next := pkitest.CA(t, "company", noon()), pkitest.CA(t, "company", noon().Add(time.Hour))
	w := outsideWorld(t, old)
	w.step()
	w.runsOutside()

	w.in.Now = noon().Add(2 * time.Hour)
	w.brings(next.Certificate())
	changed := w.step(hold)

	if diff := cmp.Diff([]authority.TransitionKind{authorities.ClusterKeyReplaced}, kinds(changed)); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1", "1"}, generations(w)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if got := bundleOf(t, w.in.CertSecret); !same(got, certificatesOf(old, next)) {
		t.Errorf("ca.crt holds %d certificates, want the old CA first and then the next", len(got))
	}
	if dated := w.in.CertSecret.Data[authority.DatedCertKey(old.Certificate())]; !bytes.Equal(dated, pki.EncodeBundle(old.Certificate())) {
		t.Error("the old CA has no entry under its dated name")
	}
	if target := w.decide().Target(); !target.Equal(next.Certificate()) {
		t.Errorf("the target is %q of %s", target.Subject, target.NotBefore)
	}
	w.step(turn)
	finished := w.step(finish)
	if diff := cmp.Diff([]authority.TransitionKind{authority.OldRemoved}, kinds(finished)); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if got := bundleOf(t, w.in.CertSecret); !same(got, certificatesOf(next)) || len(w.in.CertSecret.Data[authority.DatedCertKey(old.Certificate())]) > 0 {
		t.Errorf("ca.crt holds %d certificates in the end, want the next CA alone", len(got))
	}
}

// Nobody but nodes can say what they trust then; a CA that they were never given counts for nothing.
func TestWhatNodesShowReplacesALostRecordOfTheOldCA(t *testing.T) {
	t.Parallel()
	old, next, foreign := pkitest.CA(t, "company", noon()), pkitest.CA(t, "company two", noon()), pkitest.CA(t, "foreign", noon())
	w := outsideWorld(t, next)
	w.in.Evidence = authority.Evidence{
		Dependants: []string{"Pod my-brk-0"},
		Named:      []pki.Fingerprint{pki.FingerprintOf(old.Certificate()), pki.FingerprintOf(next.Certificate())},
		Reported:   certificatesOf(old, next, foreign),
	}

	d := w.decide()

	if !same(d.Retired, certificatesOf(old)) {
		t.Errorf("%d CAs are outgoing, want the one that nodes show", len(d.Retired))
	}
	if !same(d.Published, certificatesOf(old)) {
		t.Errorf("applications are taken to read %d CAs, want the one that nodes show", len(d.Published))
	}
	if d.Target() == nil || !d.Target().Equal(next.Certificate()) {
		t.Errorf("the target is %v, want the CA of the bundle", d.Target())
	}
}

func TestANewKeyThatIsAnnouncedBesideTheOldOneCountsWhenTheOldOneLeaves(t *testing.T) {
	t.Parallel()
	old, next, later := pkitest.CA(t, "company", noon()), pkitest.CA(t, "company", noon()), pkitest.CA(t, "later", noon())
	w := outsideWorld(t, old)
	w.step()
	w.runsOutside()

	for _, c := range []struct {
		bundle []*x509.Certificate
		want   []string
	}{
		{certificatesOf(old, next), []string{"1", "0"}},
		{certificatesOf(next), []string{"2", "1"}},
		{certificatesOf(next, later), []string{"3", "1"}}, // the old one is on its way out
	} {
		w.brings(c.bundle...)
		w.step(hold)
		if diff := cmp.Diff(c.want, generations(w)); diff != "" {
			t.Errorf("generations (-want +got):\n%s", diff)
		}
	}
}

func TestARenewedCAOfTheSameKeyCountsOnce(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "company", noon())
	w := outsideWorld(t, ca)
	w.step()
	w.runsOutside()
	w.in.Now = noon().Add(day)
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 100*day, w.in.Now)
	if err != nil {
		t.Fatal(err)
	}

	w.brings(renewed.Certificate())
	changed := w.step(hold)

	if diff := cmp.Diff([]authority.TransitionKind{authority.Renewed}, kinds(changed)); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1", "0"}, generations(w)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
}

func TestOfABundleNodesTrustWhatHasSignedNoOtherCAOfIt(t *testing.T) {
	t.Parallel()
	root, other := pkitest.CA(t, "root", noon()), pkitest.CA(t, "other", noon())
	issuing := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(*x509.Certificate) {})
	w := outsideWorld(t, root, issuing, other)
	w.step()
	w.offers(issuing)

	d := w.decide()

	if !d.Target().Equal(issuing.Certificate()) || !same(d.Kept, certificatesOf(other)) {
		t.Errorf("the target is %q beside %d others, want the issuing CA beside one", d.Target().Subject, len(d.Kept))
	}
	for _, cert := range certificatesOf(root, issuing, other) {
		if !containsCert(bundleOf(t, w.in.CertSecret), cert) {
			t.Errorf("ca.crt lacks %q", cert.Subject)
		}
	}
}

func TestWhatHasSignedACAOfABundleIsNotTrustedWhileThatIsInvalid(t *testing.T) {
	t.Parallel()
	root, other := pkitest.CA(t, "root", noon()), pkitest.CA(t, "other", noon())
	below := func(change func(*x509.Certificate)) *x509.Certificate {
		return pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), change).Certificate()
	}
	for name, issuing := range map[string]*x509.Certificate{
		"it has expired": below(func(c *x509.Certificate) { c.NotAfter = noon().Add(10 * day) }),
		"it is not valid yet": below(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = noon().Add(30*day), noon().Add(60*day)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t, other)
			w.brings(root.Certificate(), issuing, other.Certificate())
			w.step()
			w.runsOutside()
			w.in.Now = noon().Add(20 * day)
			w.step()

			d := w.decide()
			if !d.Target().Equal(other.Certificate()) || len(d.Kept) > 0 || !same(d.Published, certificatesOf(other)) {
				t.Errorf("the target is %q beside %d others, and %d are published", d.Target().Subject, len(d.Kept), len(d.Published))
			}
			if !containsCert(bundleOf(t, w.in.CertSecret), root.Certificate()) || !containsCert(bundleOf(t, w.in.CertSecret), issuing) {
				t.Error("ca.crt has not all of the bundle")
			}

			w.brings(other.Certificate())
			if d := w.decide(); len(d.Retired) > 0 || !same(d.Published, certificatesOf(other)) {
				t.Errorf("without the root %d CAs are retired and %d are published", len(d.Retired), len(d.Published))
			}
		})
	}
}

func TestTheCAOfTheNewestLeafIsTheTarget(t *testing.T) {
	t.Parallel()
	one, two, three := pkitest.CA(t, "one", noon()), pkitest.CA(t, "two", noon()), pkitest.CA(t, "three", noon())
	cross, err := pki.CrossSign(one, two.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	crossed, err := pki.NewAuthority(two.Certificate(), two.Key(), cross)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		offers *pki.Authority
		want   pki.Authority
	}{
		"nothing was issued":            {nil, one},
		"the second CA issued":          {&two, two},
		"one issued that is not listed": {&three, one},
		"the second CA issued, and sends a cross certificate of the first along": {&crossed, two},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t, one, two)
			w.step()
			if c.offers != nil {
				w.offers(*c.offers)
			}
			if got := w.decide().Target(); !got.Equal(c.want.Certificate()) {
				t.Errorf("the target is %q, want %q", got.Subject, c.want.Certificate().Subject)
			}
		})
	}
}

func TestABundleThatCannotBeTrustedIsRefused(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "company", noon())
	text := pki.EncodeBundle(ca.Certificate())
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "leaf"}, Usages: pki.BothUsages(), SANs: sans(t, "leaf"), Validity: day, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"the Secret is missing":   {func(w *world) { w.in.Bundle.Stored = authority.Stored{} }, "not found"},
		"the entry is missing":    {func(w *world) { w.in.Bundle.Stored.Data = nil }, "is missing or empty"},
		"the entry was not read":  {func(w *world) { w.in.Bundle.Unread = errors.New("too long") }, "too long"},
		"the entry is empty":      {func(w *world) { w.bringsText(nil) }, "is missing or empty"},
		"the text is cut off":     {func(w *world) { w.bringsText(text[:len(text)-40]) }, "damaged or cut off"},
		"the text is no PEM":      {func(w *world) { w.bringsText([]byte("secret")) }, "no PEM block"},
		"a private key is inside": {func(w *world) { w.bringsText(append(slices.Clone(text), key.PEM()...)) }, "private key"},
		"a leaf is inside":        {func(w *world) { w.brings(ca.Certificate(), leaf) }, "certificate 2 is not a CA"},
		"each has signed another": {func(w *world) { w.brings(signedEachOther(t)...) }, "has signed another CA of it"},
		"everything below the root has expired": {func(w *world) {
			root := pkitest.CA(t, "root", noon())
			short := pkitest.Changed(t, root, pkitest.CA(t, "short", noon()), func(c *x509.Certificate) { c.NotAfter = noon().Add(time.Hour) })
			w.brings(root.Certificate(), short.Certificate())
			w.in.Now = noon().Add(2 * time.Hour)
		}, "expired"},
		"everything has expired": {func(w *world) { w.in.Now = ca.Certificate().NotAfter.Add(time.Hour) }, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t, ca)
			w.step()
			w.runsOutside()
			c.change(w)

			_, err := authority.Decide(w.in)

			var invalid *authority.InvalidResourceError
			if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Secret company-ca") {
				t.Fatalf("%v, want a problem of Secret company-ca with %q", err, c.want)
			}
			held, err := authority.Freeze(w.in)
			if err != nil || !held.Held || !held.Certificate.Equal(ca.Certificate()) {
				t.Errorf("it goes on with %v (%v), want the CA that nodes trust", held.Certificate, err)
			}
		})
	}
}

// signedEachOther are the certificates of two CAs that have signed each other.
func signedEachOther(t *testing.T) []*x509.Certificate {
	t.Helper()
	one, two := pkitest.CA(t, "one", noon()), pkitest.CA(t, "two", noon())
	byOne, err := pki.CrossSign(one, two.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	byTwo, err := pki.CrossSign(two, one.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	return []*x509.Certificate{one.Certificate(), two.Certificate(), byOne, byTwo}
}

func TestAnExpiredCAOfABundleIsIgnoredWithAWarning(t *testing.T) {
	t.Parallel()
	short, long := pkitest.CA(t, "short", noon().Add(-300*day)), pkitest.CA(t, "long", noon())
	w := outsideWorld(t, short, long)
	w.in.Now = short.Certificate().NotAfter.Add(time.Hour)

	d := w.decide()

	if !d.Target().Equal(long.Certificate()) || len(d.Kept) > 0 {
		t.Errorf("the target is %q beside %d others", d.Target().Subject, len(d.Kept))
	}
	if !slices.ContainsFunc(d.Warnings, func(r authority.Remark) bool { return strings.Contains(r.Text, "expired") }) {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

func TestAMoveToAnIssuerCountsOnFromWhatNodesBear(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "company", noon())
	own := pkitest.CA(t, "own", noon())
	w := outsideWorld(t, ca)
	w.in.CertSecret = authority.Stored{
		Exists: true, Data: map[string][]byte{authority.CertKey: pki.EncodeBundle(own.Certificate())},
		Annotations: map[string]string{
			w.in.Names.CertGeneration: "4",
			// The cluster was the issuer's before.
			w.in.Names.CertHash: hashedOnce(t, ca),
		},
	}
	w.in.Evidence.Dependants, w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = []string{"pod"}, 4, 3

	w.step(hold)

	if diff := cmp.Diff([]string{"5", "4"}, generations(w)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
}

// hashedOnce is how a bundle of one CA is named where it was copied.
func hashedOnce(t *testing.T, ca pki.Authority) string {
	t.Helper()
	w := outsideWorld(t, ca)
	w.step()
	return w.in.CertSecret.Annotations[w.in.Names.CertHash]
}

func TestKeysAreForeignToWhatTheyHaveNeitherSignedNorBelongTo(t *testing.T) {
	t.Parallel()
	own, other := pkitest.CA(t, "own", noon()), pkitest.CA(t, "other", noon())
	leafOf := func(ca pki.Authority) *x509.Certificate {
		key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
			Subject: pki.Subject{CommonName: "leaf"}, Usages: pki.BothUsages(), SANs: sans(t, "leaf"), Validity: day, Now: noon(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return leaf
	}
	for name, c := range map[string]struct {
		entries map[string][]byte
		certs   []*x509.Certificate
		want    bool
	}{
		"others":                    {map[string][]byte{authority.KeyKey: own.Key().PEM()}, []*x509.Certificate{other.Certificate(), leafOf(other)}, true},
		"its certificate":           {map[string][]byte{authority.KeyKey: own.Key().PEM()}, certificatesOf(other, own), false},
		"a leaf that it has signed": {map[string][]byte{authority.KeyKey: own.Key().PEM()}, []*x509.Certificate{leafOf(other), leafOf(own)}, false},
		"a retired key's":           {map[string][]byte{authority.KeyKey: other.Key().PEM(), authority.DatedKeyKey(own.Certificate()): own.Key().PEM()}, certificatesOf(own), false},
		"a key to come":             {map[string][]byte{authority.PendingKeyKey: own.Key().PEM()}, certificatesOf(own), false},
		"a key that is damaged":     {map[string][]byte{authority.KeyKey: []byte("oops")}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := authority.AllForeign(authority.Stored{Exists: true, Data: c.entries}, c.certs); got != c.want {
				t.Errorf("foreign: %t, want %t", got, c.want)
			}
		})
	}
}
