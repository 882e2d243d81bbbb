package authority_test

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// offered is a leaf in force of an issuer whose CA all peers verify, with the answer that it is what was issued last.
func offered(tb testing.TB) (authority.LeafInput, pki.Authority) {
	tb.Helper()
	in := settled(tb)
	ca := in.Want.Authority
	in.Want.Authority, in.Want.Anchors, in.Want.Named = pki.Authority{}, certificatesOf(ca), certificatesOf(ca)
	in.Want.Usages = pki.BothUsages()
	chain, err := pki.ParseBundle(in.Stored.Certificates)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := pki.ParsePrivateKey(in.Stored.Key)
	if err != nil {
		tb.Fatal(err)
	}
	in.Answer = issuer.Issued{Chain: chain, Key: key}
	return in, ca
}

// issues has a CA issue what is asked for, but for a change.
func issues(tb testing.TB, in *authority.LeafInput, ca pki.Authority, change func(*issuer.Request)) {
	tb.Helper()
	request := issuer.Request{
		Name: "my-dual-0", Subject: in.Want.Subject, SANs: in.Want.SANs, Usages: pki.BothUsages(),
		Validity: in.Want.Validity, Renewal: in.Want.Renewal, Key: in.Want.Key, Now: in.Now,
	}
	change(&request)
	answer, err := ownca.New(ca).Issue(tb.Context(), request)
	if err != nil {
		tb.Fatal(err)
	}
	if _, issued := answer.(issuer.Issued); !issued {
		tb.Fatalf("not issued: %+v", answer)
	}
	in.Answer = answer
}

// replaces has another CA sign from now on, by which peers verify leaves beside the present one.
func replaces(tb testing.TB, in *authority.LeafInput) {
	tb.Helper()
	next := certificatesOf(pkitest.CA(tb, "next", noon()))
	in.Want.Anchors, in.Want.Interim, in.Want.Named = next, in.Want.Anchors, next
}

// outlives has another CA sign from now on, and the one that signed the stored leaf, which outlives it, ends in ten days.
func outlives(tb testing.TB, in *authority.LeafInput) {
	tb.Helper()
	in.Now = noon().Add(30 * day)
	long, next := pkitest.CA(tb, "present", noon()), pkitest.CA(tb, "next", noon())
	short, err := pki.RenewCA(long.Certificate(), long.Key(), 40*day, noon())
	if err != nil {
		tb.Fatal(err)
	}
	issues(tb, in, long, asAsked)
	stored, is := in.Answer.(issuer.Issued)
	if !is {
		tb.Fatal("nothing is issued")
	}
	in.Stored = authority.StoredLeaf{Certificates: pki.EncodeBundle(stored.Chain...), Key: stored.Key.PEM()}
	in.Want.Anchors, in.Want.Interim = certificatesOf(next), certificatesOf(short)
	issues(tb, in, next, asAsked)
}

func asAsked(*issuer.Request) {}

// intermediates are a CA below another one, and one below that.
func intermediates(tb testing.TB, root pki.Authority) (upper, lower pki.Authority) {
	tb.Helper()
	upper = pkitest.Changed(tb, root, pkitest.CA(tb, "upper", noon()), func(*x509.Certificate) {})
	return upper, pkitest.Changed(tb, upper, pkitest.CA(tb, "lower", noon()), func(*x509.Certificate) {})
}

// presents changes what follows the leaf that is issued.
func presents(tb testing.TB, in *authority.LeafInput, after ...pki.Authority) {
	tb.Helper()
	issued, is := in.Answer.(issuer.Issued)
	if !is {
		tb.Fatal("nothing is issued")
	}
	issued.Chain = append(issued.Chain[:1:1], certificatesOf(after...)...)
	in.Answer = issued
}

func TestAnOfferedLeafIsAdoptedOnlyWhenAllPeersVerifyWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, in *authority.LeafInput, ca pki.Authority)
		act    authority.LeafAct
		detail string
	}{
		"it is stored already": {func(*testing.T, *authority.LeafInput, pki.Authority) {}, authority.KeepLeaf, ""},
		"there is none yet": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			in.Stored = authority.StoredLeaf{}
			issues(t, in, ca, asAsked)
		}, authority.AdoptLeaf, "no certificate yet"},
		"it was renewed": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			in.Window.Open = true
			issues(t, in, ca, asAsked)
		}, authority.AdoptLeaf, "issued another one"},
		"it was renewed outside of a window": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			issues(t, in, ca, asAsked)
		}, authority.PostponeLeaf, "issued another one"},
		"it was renewed outside of a window, and the old one ends before the next": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			in.Now, in.Window.Next = noon().Add(99*day), noon().Add(200*day)
			issues(t, in, ca, asAsked)
		}, authority.AdoptLeaf, "expires at"},
		"another CA is to sign, and the CA of the old one ends before the next window": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			outlives(t, in)
			in.Window.Next = noon().Add(60 * day)
		}, authority.AdoptLeaf, "issued another one"},
		"another CA is to sign, and the CA of the old one has ended": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			outlives(t, in)
			in.Now, in.Window.Next = noon().Add(41*day), noon().Add(60*day)
		}, authority.AdoptLeaf, "issued another one"},
		"another CA is to sign, and the CA of the old one ends after the next window": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			outlives(t, in)
			in.Window.Next = noon().Add(35 * day)
		}, authority.PostponeLeaf, "issued another one"},
		"another CA issued it": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			issues(t, in, pkitest.CA(t, "stranger", noon()), asAsked)
		}, authority.HoldLeaf, `put the CA "CN=stranger,O=example" with the key identifier `},
		"a CA of the bundle issued it that not all trust yet": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			next := pkitest.CA(t, "next", noon())
			in.Want.Named = certificatesOf(next)
			issues(t, in, next, asAsked)
		}, authority.HoldLeaf, `not all nodes trust the CA "CN=next,O=example" yet`},
		"a CA issued it that is being replaced": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			replaces(t, in)
			issues(t, in, ca, asAsked)
		}, authority.HoldLeaf, "have the issuer sign with a CA of the bundle"},
		"a CA issued it that is being replaced, and the stored one is due": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			replaces(t, in)
			in.Now, in.Window.Open = noon().Add(80*day), true
			issues(t, in, ca, asAsked)
		}, authority.AdoptLeaf, "expires at"},
		"a CA issued it that is being replaced, and the stored one is due, outside of a window": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			replaces(t, in)
			in.Now = noon().Add(80 * day)
			issues(t, in, ca, asAsked)
		}, authority.PostponeLeaf, "expires at"},
		"a CA issued it that is being replaced, and the stored one has expired": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			replaces(t, in)
			in.Now = noon().Add(101 * day)
			issues(t, in, ca, asAsked)
		}, authority.AdoptLeaf, "expired"},
		"a CA issued it that nodes trust only through its root": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			root := pkitest.CA(t, "root", noon())
			issuing := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(*x509.Certificate) {})
			in.Want.Named = certificatesOf(root, issuing)
			issues(t, in, root, asAsked)
		}, authority.HoldLeaf, "has signed another CA of the bundle"},
		"its chain is in another order": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			upper, lower := intermediates(t, ca)
			issues(t, in, lower, asAsked)
			presents(t, in, upper, lower)
		}, authority.HoldLeaf, "not adopted, because the chain is out of order"},
		"its chain lacks an intermediate": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			upper, lower := intermediates(t, ca)
			issues(t, in, lower, asAsked)
			presents(t, in, upper)
		}, authority.HoldLeaf, "not adopted, because the chain is out of order"},
		"an unrelated certificate follows it": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			issues(t, in, ca, asAsked)
			presents(t, in, pkitest.CA(t, "stray", noon()))
		}, authority.HoldLeaf, `not adopted, because the chain is out of order: certificate 1 "CN=my-kafka,O=io.strimzi" was issued by`},
		"it is stored already, and an unrelated certificate follows it now": {func(t *testing.T, in *authority.LeafInput, _ pki.Authority) {
			t.Helper()
			presents(t, in, pkitest.CA(t, "stray", noon()))
		}, authority.HoldLeaf, "not adopted, because the chain is out of order"},
		"its organization was dropped": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			issues(t, in, ca, func(r *issuer.Request) { r.Subject.Organization = "" })
		}, authority.HoldLeaf, "its subject is"},
		"it has another name": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			issues(t, in, ca, func(r *issuer.Request) { r.SANs = sans(t, "example.com") })
		}, authority.HoldLeaf, "names to add"},
		"its key is of another kind": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			issues(t, in, ca, func(r *issuer.Request) { r.Key = pki.KeyParams{Algorithm: pki.RSA, Size: 2048} })
		}, authority.HoldLeaf, "its key is"},
		"it may not serve": {func(t *testing.T, in *authority.LeafInput, ca pki.Authority) {
			t.Helper()
			issues(t, in, ca, func(r *issuer.Request) { r.Usages = []pki.Usage{pki.ClientAuth} })
		}, authority.HoldLeaf, "it is not for all of"},
		"the stored one has expired, and no other was issued": {func(_ *testing.T, in *authority.LeafInput, _ pki.Authority) {
			in.Now = noon().Add(101 * day)
		}, authority.HoldLeaf, "expired"},
		"the issuer has not answered": {func(_ *testing.T, in *authority.LeafInput, _ pki.Authority) {
			in.Answer = issuer.Pending{Since: noon(), Why: "it waits"}
		}, authority.KeepLeaf, ""},
		"the issuer has not answered, and renewal is due": {func(_ *testing.T, in *authority.LeafInput, _ pki.Authority) {
			in.Now, in.Answer = noon().Add(80*day), issuer.Pending{Since: noon(), Why: "it waits"}
		}, authority.HoldLeaf, "expires at"},
		"the issuer denies it": {func(_ *testing.T, in *authority.LeafInput, _ pki.Authority) {
			in.Answer = issuer.Denied{Why: "correct it"}
		}, authority.HoldLeaf, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, ca := offered(t)
			c.change(t, &in, ca)
			stored := in.Stored

			got := authority.DecideOffered(in)

			if got.Act != c.act || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("%s because of %q (%s), want %s with %q", got.Act, got.Reason, got.Detail, c.act, c.detail)
			}
			if got.Act == authority.AdoptLeaf {
				if got.Leaf != got.State.Offered || got.Leaf == nil {
					t.Error("what is published is not what was offered")
				}
				return
			}
			if got.Leaf == nil || !bytes.Equal(got.Leaf.Certificates, stored.Certificates) || !bytes.Equal(got.Leaf.Key, stored.Key) {
				t.Error("what is published is not what is stored")
			}
		})
	}
}

func TestALeafIsDueBeforeTheEndOfACAThatIsPresentedWithIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begins, ends, now time.Duration
		act               authority.LeafAct
		renewal           time.Duration
	}{
		"it lasts for longer than the leaf":     {0, 200 * day, 50 * day, authority.KeepLeaf, 70 * day},
		"it ends in a while":                    {-100 * day, 60 * day, 29 * day, authority.KeepLeaf, 30 * day},
		"it ends soon":                          {-100 * day, 60 * day, 31 * day, authority.HoldLeaf, 30 * day},
		"it has ended":                          {-100 * day, 60 * day, 61 * day, authority.HoldLeaf, 30 * day},
		"it was short from its beginning":       {0, 12 * day, 7 * day, authority.KeepLeaf, 8 * day},
		"it was short and is in its last third": {0, 12 * day, 9 * day, authority.HoldLeaf, 8 * day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, root := offered(t)
			long := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(*x509.Certificate) {}) // it cuts no leaf to its end
			issuing := pkitest.Changed(t, root, long, func(ca *x509.Certificate) {
				ca.NotBefore, ca.NotAfter = noon().Add(c.begins), noon().Add(c.ends)
			})
			issues(t, &in, long, asAsked)
			presents(t, &in, issuing)
			issued, _ := in.Answer.(issuer.Issued)
			in.Stored = authority.StoredLeaf{Certificates: pki.EncodeBundle(issued.Chain...), Key: issued.Key.PEM()}
			in.Answer, in.Now = issuer.Pending{Since: noon(), Why: "it waits"}, noon().Add(c.now)

			got := authority.DecideOffered(in)

			if got.Act != c.act || got.Act == authority.HoldLeaf && !strings.Contains(got.Detail, `"CN=issuing,O=example", which is presented with it, expires at`) {
				t.Errorf("%s (%s), want %s", got.Act, got.Detail, c.act)
			}
			if got.Act == authority.KeepLeaf && !got.RenewalAt.Equal(noon().Add(c.renewal)) {
				t.Errorf("it is due at %s, want %s", got.RenewalAt, noon().Add(c.renewal))
			}
		})
	}
}

func TestALeafThatItsIssuerDoesNotRenewIsOverdue(t *testing.T) {
	t.Parallel()
	in, ca := offered(t)
	end := noon().Add(in.Want.Validity)
	for name, c := range map[string]struct {
		renewal time.Duration
		now     time.Time
		status  authority.RequestStatus
	}{
		"it is not due":                           {in.Want.Renewal, end.Add(-in.Want.Renewal).Add(-time.Hour), authority.NoRequest},
		"it has just become due":                  {in.Want.Renewal, end.Add(-in.Want.Renewal).Add(11 * time.Hour), authority.NoRequest},
		"it was due half a day ago":               {in.Want.Renewal, end.Add(-in.Want.Renewal).Add(13 * time.Hour), authority.RequestOverdue},
		"it lasts shorter, and its third has not": {in.Want.Validity - time.Hour, end.Add(-in.Want.Validity / 3), authority.NoRequest},
		"it lasts shorter, and its third has":     {in.Want.Validity - time.Hour, end.Add(-in.Want.Validity / 3).Add(13 * time.Hour), authority.RequestOverdue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := in
			in.Now, in.Want.Renewal, in.Window.Open = c.now, c.renewal, true

			d := authority.DecideOffered(in)

			if d.State.Request.Status != c.status || (d.Act == authority.HoldLeaf) != (c.status == authority.RequestOverdue) {
				t.Errorf("the request is %q and the leaf is to %s, want %q", d.State.Request.Status, d.Act, c.status)
			}
			if c.status == authority.NoRequest && !d.Until.After(c.now) {
				t.Errorf("it is looked at again at %s", d.Until)
			}
			issues(t, &in, ca, asAsked)
			if d := authority.DecideOffered(in); d.Act != authority.AdoptLeaf || d.State.Request.Status != authority.NoRequest {
				t.Errorf("with another one issued it is to %s, and the request is %q", d.Act, d.State.Request.Status)
			}
		})
	}
}

func TestALeafWhoseIssuerIsAskedForAnotherIsToldOfWhenThatIsLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration
		act   authority.LeafAct
		until time.Time
	}{
		"early": {issuer.Patience - time.Second, authority.KeepLeaf, noon().Add(issuer.Patience)},
		"late":  {issuer.Patience, authority.HoldLeaf, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, _ := offered(t)
			issued, is := in.Answer.(issuer.Issued)
			if !is {
				t.Fatal("nothing is issued")
			}
			issued.Next = &issuer.Pending{Since: noon(), Why: "Issuer kafka/company does not exist."}
			in.Answer, in.Now = issued, noon().Add(c.after)

			d := authority.DecideOffered(in)

			if d.Act != c.act || !d.Until.Equal(c.until) || d.Leaf == nil {
				t.Errorf("got %s until %s with leaf %v, want %s until %s with the leaf in force", d.Act, d.Until, d.Leaf, c.act, c.until)
			}
			if why := d.State.Request.Why; (c.act == authority.HoldLeaf) != (why == issued.Next.Why) {
				t.Errorf("it says %q", why)
			}
		})
	}
}

func TestAMissingCAWithTheNameOfAnotherIsNamedByItsKeyIdentifier(t *testing.T) {
	t.Parallel()
	in, ca := offered(t)
	next := pkitest.CA(t, ca.Certificate().Subject.CommonName, noon())
	issues(t, &in, next, asAsked)

	got := authority.DecideOffered(in)

	identifier := regexp.MustCompile(`with the key identifier ([0-9A-F:]+) into the bundle`).FindStringSubmatch(got.Detail)
	if len(identifier) != 2 || !strings.EqualFold(strings.ReplaceAll(identifier[1], ":", ""), hex.EncodeToString(next.Certificate().SubjectKeyId)) {
		t.Errorf("%s (%s), want the key identifier %X in pairs", got.Act, got.Detail, next.Certificate().SubjectKeyId)
	}
}

func TestAnOfferedLeafBelowAnIntermediateIsPresentedWithIt(t *testing.T) {
	t.Parallel()
	in, _ := offered(t)
	root := pkitest.CA(t, "root", noon())
	intermediate := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(*x509.Certificate) {})
	presenting, err := pki.NewAuthority(intermediate.Certificate(), intermediate.Key(), intermediate.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	in.Stored, in.Want.Anchors, in.Window.Open = authority.StoredLeaf{}, []*x509.Certificate{root.Certificate()}, true
	issues(t, &in, presenting, asAsked)

	got := authority.DecideOffered(in)

	if got.Act != authority.AdoptLeaf || len(got.Leaf.Chain) != 2 {
		t.Fatalf("%s (%s), want it adopted with its intermediate", got.Act, got.Detail)
	}
	in.Stored, in.Now = got.Leaf.StoredLeaf, noon().Add(time.Hour)
	if again := authority.DecideOffered(in); again.Act != authority.KeepLeaf {
		t.Errorf("once it is stored: %s (%s)", again.Act, again.Detail)
	}
}
