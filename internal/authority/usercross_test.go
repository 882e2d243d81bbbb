package authority_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// again is a user's CA that comes back with its key and something else in its
// certificate.
func again(t *testing.T, ca pki.Authority, change func(*x509.Certificate)) pki.Authority {
	t.Helper()
	return pkitest.Changed(t, ca, ca, change)
}

// renamed is the same with another subject. It ends days later.
func renamed(t *testing.T, ca pki.Authority, name string, later int) pki.Authority {
	t.Helper()
	return again(t, ca, func(c *x509.Certificate) {
		c.RawSubject = pkitest.CA(t, name, noon()).Certificate().RawSubject
		c.NotAfter = c.NotAfter.AddDate(0, 0, later)
	})
}

// renamedWorld is a cluster whose nodes trust CAs of the user's, of which the last one
// is the present one.
func renamedWorld(t *testing.T, cas ...pki.Authority) *world {
	t.Helper()
	w, _ := userWorld(t)
	present := cas[len(cas)-1]
	w.in.KeySecret.Data = map[string][]byte{"ca.key": present.Key().PEM()}
	w.in.CertSecret.Data = map[string][]byte{"ca.crt": pki.EncodeBundle(present.Certificate())}
	certs := make([]*x509.Certificate, 0, len(cas))
	for _, ca := range cas {
		certs = append(certs, ca.Certificate())
	}
	w.runs()
	w.trusts(certs...)
	return w
}

func TestEveryNameThatAUsersKeyHadBeforeVouchesForThePresentOne(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	two := renamed(t, one, "two", 0)
	three := renamed(t, one, "three", 0)
	for name, row := range map[string][]pki.Authority{
		"renewed with another subject":          {one, two},
		"renewed so twice before anybody moved": {one, two, three},
		"and taken back":                        {two, one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := renamedWorld(t, row...)
			d := w.decide()
			if d.NoCross != "" || len(d.Crosses) != len(row)-1 {
				t.Fatalf("%d cross certificates, want %d; none because %q", len(d.Crosses), len(row)-1, d.NoCross)
			}
			leaf := leafOf(t, row[len(row)-1])
			for _, anchor := range row {
				presented := append([]*x509.Certificate{leaf}, d.Crosses...)
				if err := pki.Verify(presented, []*x509.Certificate{anchor.Certificate()}, noon()); err != nil {
					t.Errorf("who trusts %q refuses a leaf: %v", anchor.Certificate().Subject.CommonName, err)
				}
			}
		})
	}
}

func TestACrossCertificateOfAUsersKeyOutlastsNeitherSide(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	for name, later := range map[string]int{"the old one ends first": 9, "the new one ends first": -9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			two := renamed(t, one, "two", later)
			d := renamedWorld(t, one, two).decide()
			want := one.Certificate().NotAfter
			if later < 0 {
				want = two.Certificate().NotAfter
			}
			if len(d.Crosses) != 1 || !d.Crosses[0].NotAfter.Equal(want) {
				t.Errorf("%d cross certificates, want one until %s", len(d.Crosses), want)
			}
		})
	}
}

func TestWhyNothingCrossSignsAUsersAuthority(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	two := renamed(t, one, "two", 0)
	limited := again(t, one, func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true })
	root := pkitest.CA(t, "root", noon())
	below := pkitest.Changed(t, root, one, func(*x509.Certificate) {})
	for name, c := range map[string]struct {
		world func(t *testing.T) *world
		why   string
	}{
		"another key identifier alone": {func(t *testing.T) *world {
			t.Helper()
			return renamedWorld(t, one, again(t, one, func(c *x509.Certificate) { c.SubjectKeyId = []byte("another") }))
		}, "another subject key identifier"},
		"another key": {func(t *testing.T) *world {
			t.Helper()
			return renamedWorld(t, one, pkitest.CA(t, "two", noon()))
		}, "the CA is your own"},
		"a path length of 0 before": {func(t *testing.T) *world {
			t.Helper()
			return renamedWorld(t, limited, two)
		}, "path length 0"},
		"the one before was below another CA": {func(t *testing.T) *world {
			t.Helper()
			return renamedWorld(t, below, two)
		}, "below another CA"},
		"the present one is below another CA": {func(t *testing.T) *world {
			t.Helper()
			w := renamedWorld(t, two, below)
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(below.Certificate(), root.Certificate())
			return w
		}, "below another CA"},
		"users send nothing along": {func(t *testing.T) *world {
			t.Helper()
			w := renamedWorld(t, one, two)
			w.in.Names = authorities.Clients.Names("my")
			w.in.KeySecret.Data["ca.key"] = []byte("elsewhere")
			return w
		}, ""},
		"the one before has ended": {func(t *testing.T) *world {
			t.Helper()
			w := renamedWorld(t, one, renamed(t, one, "two", 30))
			w.in.Now = one.Certificate().NotAfter
			return w
		}, ""},
		"a renewed certificate needs nothing": {func(t *testing.T) *world {
			t.Helper()
			return renamedWorld(t, one, again(t, one, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.AddDate(0, 0, 9) }))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := c.world(t).decide()
			if len(d.Crosses) > 0 || !strings.Contains(d.NoCross, c.why) || (d.NoCross == "") != (c.why == "") {
				t.Errorf("%d cross certificates; none because %q, want %q", len(d.Crosses), d.NoCross, c.why)
			}
		})
	}
}

// What nodes send along is all that keeps a cross certificate of a user's key.
func TestWhatNodesSendAlongIsKeptAndNotSignedAgain(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	two := renamed(t, one, "two", 30)
	cross, forgotten := crossCertificate(t, one, two), crossCertificate(t, pkitest.CA(t, "x", noon()), two)
	for name, c := range map[string]struct {
		trusted []pki.Authority
		sent    []*x509.Certificate
		want    []*x509.Certificate
		days    int
	}{
		"while the old one is trusted":        {[]pki.Authority{one, two}, []*x509.Certificate{cross}, []*x509.Certificate{cross}, 0},
		"when nobody remembers the old one":   {[]pki.Authority{two}, []*x509.Certificate{cross}, []*x509.Certificate{cross}, 0},
		"not a day longer than it lasts":      {[]pki.Authority{two}, []*x509.Certificate{cross}, nil, 366},
		"also by a key that nobody remembers": {[]pki.Authority{two}, []*x509.Certificate{forgotten}, []*x509.Certificate{forgotten}, 0},
		"but not what is its own issuer":      {[]pki.Authority{two}, []*x509.Certificate{one.Certificate()}, nil, 0},
		"and what is not there is not made":   {[]pki.Authority{two}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := renamedWorld(t, c.trusted...)
			w.in.Evidence.Included, w.in.Now = c.sent, noon().AddDate(0, 0, c.days)
			if got := w.decide().Crosses; !slices.EqualFunc(got, c.want, (*x509.Certificate).Equal) {
				t.Errorf("%d cross certificates, want the %d that are sent along", len(got), len(c.want))
			}
		})
	}
}

func crossCertificate(t *testing.T, by, of pki.Authority) *x509.Certificate {
	t.Helper()
	cross, err := pki.CrossSign(by, of.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	return cross
}

func TestOfTwoThatOperatorsHaveSignedAllTakeOne(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	two := renamed(t, one, "two", 0)
	w := renamedWorld(t, one, two)
	taken := func(sent ...*x509.Certificate) *x509.Certificate {
		w.in.Evidence.Included = sent
		for _, ca := range crossesOf(w.decide(), two) {
			return ca
		}
		return nil
	}
	a, b := crossCertificate(t, one, two), crossCertificate(t, one, two)
	if first, second := taken(a, b), taken(b, a); first == nil || !first.Equal(second) {
		t.Error("what is taken depends on the order in which it is found")
	}
}

func TestWhatOutlastsARenewedAuthorityIsSignedAgain(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	two := renamed(t, one, "two", 0)
	shorter := again(t, two, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.AddDate(0, 0, -99) })
	w := renamedWorld(t, one, two, shorter)
	w.in.Evidence.Included = []*x509.Certificate{crossCertificate(t, one, two)}

	if got := w.decide().Crosses; !slices.ContainsFunc(got, func(c *x509.Certificate) bool {
		return c.NotAfter.Equal(shorter.Certificate().NotAfter)
	}) {
		t.Errorf("%d cross certificates, want one until %s", len(got), shorter.Certificate().NotAfter)
	}
}

func TestAUsersKeySignsUnderItsNameBeforeWhileThatIsTrusted(t *testing.T) {
	t.Parallel()
	one := pkitest.CA(t, "one", noon())
	two := renamed(t, one, "two", 0)
	d := renamedWorld(t, one, two).decide()
	signs := func(ca pki.Authority) bool {
		return slices.ContainsFunc(d.Keys, func(k pki.Authority) bool { return k.Certificate().Equal(ca.Certificate()) })
	}
	if !signs(one) || !signs(two) || len(d.Keys) != 2 {
		t.Errorf("%d authorities sign, want the present one and the one before", len(d.Keys))
	}
	if now, before := d.GenerationOf(two.Certificate()), d.GenerationOf(one.Certificate()); now != 3 || before != 2 {
		t.Errorf("leaves are of generation %s, and %s of the name before; want 3 and 2", now, before)
	}
}
