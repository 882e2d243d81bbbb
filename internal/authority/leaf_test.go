package authority_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func sans(tb testing.TB, values ...string) pki.SANs {
	tb.Helper()
	s, err := pki.NewSANs(values...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// storedLeaf issues what the input wants and stores it.
func storedLeaf(tb testing.TB, in authority.LeafInput) authority.LeafInput {
	tb.Helper()
	key, err := pki.GenerateKey(in.Want.Key)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := in.Want.Authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: in.Want.Subject, SANs: in.Want.SANs, Usages: pki.BothUsages(), Validity: in.Want.Validity, Now: in.Now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	in.Stored = authority.StoredLeaf{
		Certificates: pki.EncodeBundle(append([]*x509.Certificate{leaf}, in.Want.Chain...)...),
		Key:          key.PEM(),
	}
	return in
}

// settled is a leaf that is as it shall be.
func settled(tb testing.TB) authority.LeafInput {
	tb.Helper()
	return storedLeaf(tb, authority.LeafInput{
		Want: authority.WantedLeaf{
			Subject:   pki.Subject{Organization: "io.strimzi", CommonName: "my-kafka"},
			SANs:      sans(tb, "my-kafka-bootstrap", "my-brk-0.my-kafka-brokers.ns.svc", "10.0.0.1"),
			Key:       pki.DefaultLeafKey(pki.ECDSA),
			Authority: pkitest.CA(tb, "cluster-ca v0", noon()),
			Validity:  100 * day,
			Renewal:   30 * day,
		},
		Window: authority.Window{Next: noon().Add(75 * day)},
		Now:    noon(),
	})
}

// The rows of the table of when a leaf is reissued, with or without a window.
func TestWhatHappensToALeaf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(t *testing.T, in *authority.LeafInput)
		act    authority.LeafAct
		reason authority.LeafReason
	}{
		"nothing changed": {
			func(*testing.T, *authority.LeafInput) {}, authority.KeepLeaf, "",
		},
		"there is none": {
			func(_ *testing.T, in *authority.LeafInput) { in.Stored = authority.StoredLeaf{} }, authority.ReissueLeaf, authority.LeafMissing,
		},
		"its key is missing": {
			func(_ *testing.T, in *authority.LeafInput) { in.Stored.Key = nil }, authority.ReissueLeaf, authority.LeafMissing,
		},
		"it is cut off": {
			func(_ *testing.T, in *authority.LeafInput) { in.Stored.Certificates = in.Stored.Certificates[:100] }, authority.ReissueLeaf, authority.LeafUnreadable,
		},
		"its key is garbage": {
			func(_ *testing.T, in *authority.LeafInput) { in.Stored.Key = []byte("x") }, authority.ReissueLeaf, authority.LeafUnreadable,
		},
		"its key is another one": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Stored.Key = pkitest.CA(t, "x", noon()).Key().PEM()
			}, authority.ReissueLeaf, authority.LeafKeyMismatch,
		},
		"the CA has another key": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Authority = pkitest.CA(t, "cluster-ca v0", noon())
			}, authority.ReissueLeaf, authority.LeafSigner,
		},
		"no authority can sign, and nothing is due": {
			func(_ *testing.T, in *authority.LeafInput) { in.Want.Authority = pki.Authority{} }, authority.KeepLeaf, "",
		},
		"no authority can sign, and it is about to expire": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Want.Authority, in.Now = pki.Authority{}, noon().Add(71*day)
			}, authority.HoldLeaf, authority.LeafSigner,
		},
		"no authority can sign, and a name is added": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Authority, in.Want.SANs = pki.Authority{}, sans(t, append(in.Want.SANs.Values(), "kafka.example.org")...)
			}, authority.HoldLeaf, authority.LeafSigner,
		},
		"no authority can sign, and its key is another one": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Authority, in.Stored.Key = pki.Authority{}, pkitest.CA(t, "x", noon()).Key().PEM()
			}, authority.HoldLeaf, authority.LeafSigner,
		},
		"the common name changed": {
			func(_ *testing.T, in *authority.LeafInput) { in.Want.Subject.CommonName = "other" }, authority.ReissueLeaf, authority.LeafSubject,
		},
		"the organisation is no longer wanted": {
			func(_ *testing.T, in *authority.LeafInput) { in.Want.Subject.Organization = "" }, authority.ReissueLeaf, authority.LeafSubject,
		},
		"a name is added": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()

				in.Want.SANs = sans(t, append(in.Want.SANs.Values(), "kafka.example.org")...)
			}, authority.ReissueLeaf, authority.LeafSANs,
		},
		"an address is removed": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.SANs = sans(t, in.Want.SANs.DNS...)
			}, authority.ReissueLeaf, authority.LeafSANs,
		},
		"the names come in another order": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Want.SANs.DNS = []string{"my-brk-0.my-kafka-brokers.ns.svc", "my-kafka-bootstrap"}
			}, authority.KeepLeaf, "",
		},
		"another algorithm is wanted": {
			func(_ *testing.T, in *authority.LeafInput) { in.Want.Key = pki.DefaultLeafKey(pki.RSA) }, authority.ReissueLeaf, authority.LeafKeyParameters,
		},
		"another size is wanted, which comes with the next leaf": {
			func(_ *testing.T, in *authority.LeafInput) { in.Want.Key.Size = 521 }, authority.KeepLeaf, "",
		},
		"another algorithm is wanted while a leaf that serves shall stay": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Want.Key, in.Waits = pki.DefaultLeafKey(pki.RSA), "it waits"
			}, authority.HoldLeaf, authority.LeafKeyParameters,
		},
		"it is about to expire while a leaf that serves shall stay": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Now, in.Window, in.Waits = noon().Add(71*day), authority.Window{Open: true}, "it waits"
			}, authority.HoldLeaf, authority.LeafExpiring,
		},
		"it ends within a day while a leaf that serves shall stay": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Now, in.Window, in.Waits = noon().Add(99*day+time.Hour), authority.Window{Open: true}, "it waits"
			}, authority.ReissueLeaf, authority.LeafExpiring,
		},
		"another algorithm is wanted and it ends within a day": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Want.Key, in.Now, in.Waits = pki.DefaultLeafKey(pki.RSA), noon().Add(99*day+time.Hour), "it waits"
			}, authority.ReissueLeaf, authority.LeafKeyParameters,
		},
		"another CA signs while a leaf that serves shall stay": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Authority, in.Waits = pkitest.CA(t, "cluster-ca v0", noon()), "it waits"
			}, authority.ReissueLeaf, authority.LeafSigner,
		},
		"there is none and nothing else would be issued": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Stored, in.Waits = authority.StoredLeaf{}, "it waits"
			}, authority.ReissueLeaf, authority.LeafMissing,
		},
		"no authority can sign, and there is none": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Want.Authority, in.Stored = pki.Authority{}, authority.StoredLeaf{}
			}, authority.HoldLeaf, authority.LeafSigner,
		},
		"a cross certificate is to be presented": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
			}, authority.RechainLeaf, authority.LeafChain,
		},
		"a cross certificate is not to be presented any more": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
				*in = storedLeaf(t, *in)
				in.Want.Chain = nil
			}, authority.RechainLeaf, authority.LeafChain,
		},
		"a cross certificate is to be presented and the common name changed": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
				in.Want.Subject.CommonName = "other"
			}, authority.ReissueLeaf, authority.LeafSubject,
		},
		"a cross certificate is to be presented and it is about to expire": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
				in.Now, in.Window = noon().Add(71*day), authority.Window{Open: true}
			}, authority.ReissueLeaf, authority.LeafExpiring,
		},
		"a cross certificate is to be presented and it would be renewed in a window": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
				in.Now = noon().Add(71 * day)
			}, authority.RechainLeaf, authority.LeafChain,
		},
		"the CA was renewed and the leaf has time": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Authority = renewedCA(t, in.Want.Authority, noon())
			}, authority.KeepLeaf, "",
		},
		"the CA was renewed and the leaf would have ended with the one before": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()
				in.Want.Validity = 1000 * day
				*in = storedLeaf(t, *in)
				in.Now, in.Window = noon().Add(350*day), authority.Window{Open: true}
				in.Want.Authority = renewedCA(t, in.Want.Authority, in.Now)
			}, authority.ReissueLeaf, authority.LeafExpiring,
		},
		"it is about to expire and a window is open": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Now = noon().Add(71 * day)
				in.Window = authority.Window{Open: true}
			}, authority.ReissueLeaf, authority.LeafExpiring,
		},
		"it is about to expire and a window comes in time": {
			func(_ *testing.T, in *authority.LeafInput) { in.Now = noon().Add(71 * day) }, authority.PostponeLeaf, authority.LeafExpiring,
		},
		"it would expire before the next window": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Now = noon().Add(71 * day)
				in.Window = authority.Window{Next: noon().Add(101 * day)}
			}, authority.ReissueLeaf, authority.LeafExpiring,
		},
		"it ends within a day and no window is in sight": {
			func(_ *testing.T, in *authority.LeafInput) {
				in.Now = noon().Add(99*day + time.Hour)
				in.Window = authority.Window{}
			}, authority.ReissueLeaf, authority.LeafExpiring,
		},
		"it has expired": {
			func(_ *testing.T, in *authority.LeafInput) { in.Now = noon().Add(101 * day) }, authority.ReissueLeaf, authority.LeafOutdated,
		},
		"it would expire, but its CA ends no later": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()

				in.Want.Validity = 1000 * day
				*in = storedLeaf(t, *in)
				in.Now = noon().Add(350 * day)
				in.Window = authority.Window{Open: true}
			}, authority.KeepLeaf, "",
		},
		"a name is added while the window is closed": {
			func(t *testing.T, in *authority.LeafInput) {
				t.Helper()

				in.Now = noon().Add(71 * day)
				in.Want.SANs = sans(t, "other.example.org")
			}, authority.ReissueLeaf, authority.LeafSANs,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := settled(t)
			tc.change(t, &in)
			got := authority.DecideLeaf(in)
			if got.Act != tc.act || got.Reason != tc.reason {
				t.Errorf("%s because of %q (%s), want %s because of %q", got.Act, got.Reason, got.Detail, tc.act, tc.reason)
			}
			if got.Reason != "" && got.Detail == "" {
				t.Error("no detail for people")
			}
		})
	}
}

func TestAPostponedLeafSaysUntilWhen(t *testing.T) {
	t.Parallel()
	in := settled(t)
	in.Now = noon().Add(71 * day)
	got := authority.DecideLeaf(in)
	if !got.Until.Equal(noon().Add(75*day)) || !got.RenewalAt.Equal(noon().Add(70*day)) {
		t.Errorf("until %s, renewal at %s", got.Until, got.RenewalAt)
	}
}

func crossOf(t *testing.T, ca pki.Authority) *x509.Certificate {
	t.Helper()
	cross, err := pki.CrossSign(pkitest.CA(t, "old", noon()), ca.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	return cross
}

func renewedCA(t *testing.T, ca pki.Authority, now time.Time) pki.Authority {
	t.Helper()
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 365*day, now)
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}

func TestALeafWithItsNewChainIsKept(t *testing.T) {
	t.Parallel()
	in := settled(t)
	cross := crossOf(t, in.Want.Authority)
	in.Want.Chain = []*x509.Certificate{cross}
	in.Stored.Certificates = pki.EncodeBundle(parse(t, in.Stored.Certificates), cross)
	if got := authority.DecideLeaf(in); got.Act != authority.KeepLeaf {
		t.Errorf("%s because of %q", got.Act, got.Reason)
	}
}

func FuzzDecideLeaf(f *testing.F) {
	in := settled(f)
	f.Add(in.Stored.Certificates, in.Stored.Key)
	f.Add(in.Stored.Key, in.Stored.Certificates)
	f.Fuzz(func(t *testing.T, certificates, key []byte) {
		t.Helper()

		in := in
		in.Stored.Certificates, in.Stored.Key = certificates, key
		got := authority.DecideLeaf(in)
		if got.Act == authority.KeepLeaf {
			leaf, err := pki.FirstCertificate(certificates)
			if err != nil {
				t.Fatalf("kept what cannot be read: %v", err)
			}
			if parsed, err := pki.ParsePrivateKey(key); err != nil || !parsed.Matches(leaf) {
				t.Error("kept a leaf without its key")
			}
		}
	})
}
