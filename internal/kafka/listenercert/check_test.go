package listenercert_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

const day = authority.Day

// chained is a CA below another one.
type chained struct {
	issuing pki.Authority
	root    *x509.Certificate
}

func newChain(tb testing.TB) chained {
	tb.Helper()
	root := pkitest.CA(tb, "root", noon())
	return chained{issuing: pkitest.Limited(tb, root, pkitest.CA(tb, "issuing", noon())), root: root.Certificate()}
}

func sans(tb testing.TB, values ...string) pki.SANs {
	tb.Helper()
	s, err := pki.NewSANs(values...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// brought is a good certificate of a user for a listener, below an intermediate.
func brought(tb testing.TB) (listenercert.Certificate, chained) {
	tb.Helper()
	chain := newChain(tb)
	lc := listenercert.Certificate{
		Listener: "tls", Secret: "mine", CertificateKey: "tls.crt", KeyKey: "tls.key",
		Names:  sans(tb, "kafka.example.org", "my-kafka-bootstrap.ns.svc", "10.0.0.1"),
		Stored: authority.Stored{Exists: true, Data: map[string][]byte{}},
	}
	store(tb, &lc, chain, pki.LeafSpec{
		Subject: pki.Subject{CommonName: "kafka"}, SANs: sans(tb, "*.example.org", "my-kafka-bootstrap.ns.svc", "10.0.0.1"),
		Usages: []pki.Usage{pki.ServerAuth}, Validity: 90 * day, Now: noon(),
	})
	return lc, chain
}

func store(tb testing.TB, lc *listenercert.Certificate, chain chained, spec pki.LeafSpec) {
	tb.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := chain.issuing.Issue(key.Signer().Public(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	lc.Stored.Data["tls.crt"] = pki.EncodeBundle(leaf, chain.issuing.Certificate())
	lc.Stored.Data["tls.key"] = key.PEM()
}

func TestAGoodCertificateIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	lc, chain := brought(t)
	checked, err := listenercert.Check(lc, noon())
	if err != nil {
		t.Fatal(err)
	}
	if len(checked.Chain) != 2 || !checked.Key.Matches(checked.Chain[0]) || !bytes.Equal(checked.Certificates, lc.Stored.Data["tls.crt"]) {
		t.Error("another chain or key came out")
	}
	if err := pki.Verify(checked.Chain, []*x509.Certificate{chain.root}, noon(), pki.ServerAuth); err != nil {
		t.Error(err)
	}
}

func TestNamesAtWhichClientsBeginAreMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bootstrap, missing []string }{
		"covered by a wildcard": {[]string{"begin.example.org"}, nil},
		"not covered":           {[]string{"a.begin.example.org", "10.0.0.1"}, []string{"a.begin.example.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lc, _ := brought(t)
			lc.Bootstrap = sans(t, c.bootstrap...)

			checked, err := listenercert.Check(lc, noon())

			if err != nil || !slices.Equal(checked.Missing, c.missing) {
				t.Errorf("missing are %q, error %v", checked.Missing, err)
			}
		})
	}
}

func TestBadCertificatesAreReported(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change   func(t *testing.T, lc *listenercert.Certificate, chain chained)
		mentions []string
	}{
		"the Secret is missing": {
			func(_ *testing.T, lc *listenercert.Certificate, _ chained) { lc.Stored = authority.Stored{} },
			[]string{"Secret mine (listener tls)", "not found"},
		},
		"both keys are missing": {
			func(_ *testing.T, lc *listenercert.Certificate, _ chained) { lc.Stored.Data = nil },
			[]string{"the key tls.crt is missing", "the key tls.key is missing"},
		},
		"the private key belongs to something else": {
			func(t *testing.T, lc *listenercert.Certificate, _ chained) {
				t.Helper()

				lc.Stored.Data["tls.key"] = pkitest.CA(t, "x", noon()).Key().PEM()
			},
			[]string{"tls.key does not belong"},
		},
		"the private key is PKCS#1": {
			func(_ *testing.T, lc *listenercert.Certificate, _ chained) {
				lc.Stored.Data["tls.key"] = bytes.ReplaceAll(lc.Stored.Data["tls.key"], []byte("PRIVATE KEY"), []byte("RSA PRIVATE KEY"))
			},
			[]string{"PKCS#1", "openssl pkcs8"},
		},
		"it does not cover an advertised name": {
			func(t *testing.T, lc *listenercert.Certificate, _ chained) {
				t.Helper()

				lc.Names = sans(t, "a.b.example.org", "10.0.0.2")
			},
			[]string{"10.0.0.2, a.b.example.org"},
		},
		"the chain is in the wrong order": {
			func(t *testing.T, lc *listenercert.Certificate, chain chained) {
				t.Helper()

				certs, err := pki.ParseBundle(lc.Stored.Data["tls.crt"])
				if err != nil {
					t.Fatal(err)
				}
				lc.Stored.Data["tls.crt"] = pki.EncodeBundle(certs[0], chain.root, certs[1])
			},
			[]string{"out of order"},
		},
		"the CA comes first": {
			func(_ *testing.T, lc *listenercert.Certificate, chain chained) {
				lc.Stored.Data["tls.crt"] = pki.EncodeBundle(chain.issuing.Certificate(), chain.root)
				lc.Stored.Data["tls.key"] = chain.issuing.Key().PEM()
			},
			[]string{"is a CA", "advertised names"},
		},
		"an issuer with an endless key": {
			func(t *testing.T, lc *listenercert.Certificate, chain chained) {
				t.Helper()

				lc.Stored.Data["tls.crt"] = append(lc.Stored.Data["tls.crt"], pki.EncodeBundle(pkitest.Oversized(t, chain.issuing, 400_000))...)
			},
			[]string{"Secret mine (listener tls)", "tls.crt", "block 3", "400000 bits: at most 8192"},
		},
		"an endless key": {
			func(t *testing.T, lc *listenercert.Certificate, _ chained) {
				t.Helper()

				lc.Stored.Data["tls.key"] = pkitest.OversizedKey(t, 100_000)
			},
			[]string{"Secret mine (listener tls)", "tls.key", "100000 bits: at most 8192"},
		},
		"more certificates than a chain has": {
			func(_ *testing.T, lc *listenercert.Certificate, chain chained) {
				lc.Stored.Data["tls.crt"] = bytes.Repeat(pki.EncodeBundle(chain.root), 11)
			},
			[]string{"Secret mine (listener tls)", "tls.crt", "11 PEM blocks: at most 10"},
		},
		"entries that were not read": {
			func(_ *testing.T, lc *listenercert.Certificate, _ chained) {
				lc.Stored.Data = nil
				lc.Unread = map[string]error{"tls.crt": pki.TooLong(300_000, 262_144), "tls.key": errors.New("there is no room for it")}
			},
			[]string{"tls.crt: the text has 300000 bytes: at most 262144 are read", "tls.key: there is no room for it"},
		},
		"it is for clients": {
			func(t *testing.T, lc *listenercert.Certificate, chain chained) {
				t.Helper()

				store(t, lc, chain, pki.LeafSpec{
					Subject: pki.Subject{CommonName: "kafka"}, SANs: lc.Names, Usages: []pki.Usage{pki.ClientAuth}, Validity: day, Now: noon(),
				})
			},
			[]string{"server auth"},
		},
		"it has expired and covers nothing": {
			func(t *testing.T, lc *listenercert.Certificate, chain chained) {
				t.Helper()

				store(t, lc, chain, pki.LeafSpec{
					Subject: pki.Subject{CommonName: "kafka"}, Usages: []pki.Usage{pki.ServerAuth}, Validity: day, Now: noon().Add(-5 * day),
				})
			},
			[]string{"expired", "advertised names"},
		},
		"the certificate is garbage and so is the key": {
			func(_ *testing.T, lc *listenercert.Certificate, _ chained) {
				lc.Stored.Data["tls.crt"], lc.Stored.Data["tls.key"] = []byte("x"), []byte("y")
			},
			[]string{"tls.crt: ", "tls.key: "},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lc, chain := brought(t)
			tc.change(t, &lc, chain)
			_, err := listenercert.Check(lc, noon())
			authoritytest.WantProblem(t, err, tc.mentions...)
		})
	}
}
