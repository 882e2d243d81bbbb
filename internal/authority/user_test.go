package authority_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// chained is an issuing CA below a root.
type chained struct {
	issuing pki.Authority
	root    *x509.Certificate
}

func newChain(tb testing.TB) chained {
	tb.Helper()
	root := pkitest.CA(tb, "root", noon())
	return chained{issuing: pkitest.Limited(tb, root, pkitest.CA(tb, "issuing", noon())), root: root.Certificate()}
}

// userWorld is a cluster with the CA of a user: an issuing CA below a root.
func userWorld(tb testing.TB) (*world, chained) {
	tb.Helper()
	w, chain := newWorld(tb), newChain(tb)
	w.in.Spec.Source = authority.UserProvided
	w.in.KeySecret = authority.Stored{
		Exists:      true,
		Data:        map[string][]byte{"ca.key": chain.issuing.Key().PEM()},
		Annotations: map[string]string{"strimzi.io/ca-key-generation": "2"},
	}
	w.in.CertSecret = authority.Stored{
		Exists:      true,
		Data:        map[string][]byte{"ca.crt": pki.EncodeBundle(chain.issuing.Certificate(), chain.root)},
		Annotations: map[string]string{"strimzi.io/ca-cert-generation": "3"},
	}
	return w, chain
}

func TestAUsersChainIsUsedAndNeverWritten(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	d := w.settle(hold)
	if settled := d.settled; settled.Key.Ours || settled.Cert.Ours || settled.Key.Data != nil || settled.Cert.Data != nil {
		t.Error("a user's Secret would be written")
	}
	wantGenerations(t, d, 3, 2)
	wantKinds(t, d)
	if published := d.Published; len(published) != 1 || !published[0].Equal(chain.issuing.Certificate()) {
		t.Errorf("%d are published, want the CA that issues leaves and not its root", len(published))
	}
	if presents := d.Authority.Presents(); len(presents) != 1 || !presents[0].Equal(chain.issuing.Certificate()) {
		t.Errorf("%d certificates are presented with a leaf, want the intermediate", len(presents))
	}
}

func TestAUsersRootAloneIsPresentedByNobody(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	ca := pkitest.CA(t, "root", noon())
	w.in.KeySecret.Data["ca.key"] = ca.Key().PEM()
	w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(ca.Certificate())
	if presents := w.decide().Authority.Presents(); len(presents) != 0 {
		t.Errorf("%d certificates are presented with a leaf", len(presents))
	}
}

func TestAUsersAuthorityIsNeverRenewed(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	w.in.Now = noon().Add(350 * day)
	w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
	d := w.settle(hold)
	wantKinds(t, d)
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].String(), "is yours to renew: ") {
		t.Errorf("warnings %q, want one that says who has to renew it", d.Warnings)
	}
}

func TestAUsersRetiredCertificateIsAnAnchorUntilItExpires(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	retired, expired := pkitest.CA(t, "retired", noon().Add(-day)).Certificate(), pkitest.CA(t, "expired", noon().Add(-400*day)).Certificate()
	issuing := w.cert()
	for _, cert := range []*x509.Certificate{retired, expired, issuing} {
		w.in.CertSecret.Data[authority.DatedCertKey(cert)] = pki.EncodeBundle(cert)
	}
	if d := w.decide(); len(d.Published) != 2 || !d.Published[1].Equal(retired) {
		t.Errorf("%d are published, want the issuing one and the unexpired one", len(d.Published))
	}
}

func TestAChangeOfAUsersCertificateCountsWhateverItsGeneration(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change   func(w *world, next chained)
		warnings int
		changed  bool
	}{
		"nothing": {func(*world, chained) {}, 0, false},
		"the generation is raised without a change": {func(w *world, _ chained) {
			w.in.CertSecret.Annotations["strimzi.io/ca-cert-generation"] = "9"
			w.in.KeySecret.Annotations["strimzi.io/ca-key-generation"] = "9"
		}, 0, false},
		"it is the first one":                    {func(w *world, _ chained) { w.in.TrustedCerts = authority.Stored{} }, 0, false},
		"another CA without a raised generation": {func(w *world, next chained) { w.provides(next) }, 1, true},
		"another CA with a raised generation": {func(w *world, next chained) {
			w.provides(next)
			w.in.CertSecret.Annotations["strimzi.io/ca-cert-generation"] = "4"
		}, 0, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, chain := userWorld(t)
			w.runs()
			w.trusts(chain.issuing.Certificate())
			w.in.Evidence.CertGeneration = 3
			tc.change(w, newChain(t))
			d := w.decide()
			if len(d.Warnings) != tc.warnings {
				t.Errorf("warnings %q", d.Warnings)
			}
			if changed := !d.Target().Equal(chain.issuing.Certificate()); changed != tc.changed {
				t.Errorf("changed: %t", changed)
			}
			if (d.NoCross != "") != tc.changed || d.Pending != nil {
				t.Errorf("no cross certificate because %q, pending %t", d.NoCross, d.Pending != nil)
			}
		})
	}
}

// provides puts another CA into the Secrets, as its user does.
func (w *world) provides(chain chained) {
	w.in.KeySecret.Data = map[string][]byte{"ca.key": chain.issuing.Key().PEM()}
	w.in.CertSecret.Data = map[string][]byte{"ca.crt": pki.EncodeBundle(chain.issuing.Certificate(), chain.root)}
}

func TestAUserMayKeepTheKeyBeforeThePresentOne(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	next := newChain(t)
	w.provides(next)
	old := chain.issuing.Certificate()
	w.in.CertSecret.Data[authority.DatedCertKey(old)] = pki.EncodeBundle(old, chain.root)
	w.in.KeySecret.Data[authority.DatedKeyKey(old)] = chain.issuing.Key().PEM()
	d := w.decide()
	if _, found := d.SignerOf(pki.KeyIDOf(old)); !found || len(d.Keys) != 2 {
		t.Errorf("%d keys are at hand, want the one before as well", len(d.Keys))
	}
	if len(d.Published) != 2 || !d.Published[0].Equal(next.issuing.Certificate()) || !d.Published[1].Equal(old) {
		t.Errorf("%d are published", len(d.Published))
	}
}

func TestAUserMayDistrustTheOldAuthority(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	w.asks(authority.DistrustAnnotation, "now")
	if !w.decide().Distrust {
		t.Error("it was not heard")
	}
}

func TestFromAnOwnAuthorityToAUsers(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	own, chain := w.cert(), newChain(t)
	w.in.Spec.Source = authority.UserProvided
	w.provides(chain)
	o := w.step()
	if !o.Target().Equal(chain.issuing.Certificate()) {
		t.Error("the target is not the user's CA")
	}
	if _, found := o.SignerOf(pki.KeyIDOf(own)); found {
		t.Error("the own key, which is gone, can sign")
	}
	if o.NoCross == "" {
		t.Error("nothing says why the own CA has not signed the user's")
	}
}

func TestFromAUsersAuthorityToAnOwn(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	issuing := chain.issuing.Certificate()
	w.runs()
	w.trusts(issuing)
	w.in.Spec.Source = authority.Generated
	o := w.step(finish)
	wantKinds(t, o, authority.OldRemoved) // the root, which issues no leaves
	wantGenerations(t, o, 3, 2)
	if !o.Certificate.Equal(issuing) || !w.cert().Equal(issuing) {
		t.Fatal("the issuing CA was not adopted")
	}
	if presents := o.Authority.Presents(); len(presents) != 1 || !presents[0].Equal(issuing) {
		t.Error("who trusts the root only cannot verify leaves any more")
	}
	// It has path length 0, so it cannot sign what replaces it.
	o = w.starts()
	if got := o.Target().Subject.CommonName; got != "cluster-ca v3" || len(o.Pending.Cross) != 0 || o.NoCross == "" {
		t.Errorf("%s is pending with %d cross certificates (%s)", got, len(o.Pending.Cross), o.NoCross)
	}
	wantGenerations(t, w.step(turn), 4, 3)
}

func TestAUsersChainIsNotAdoptedWhileNothingIsKnownOfIt(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	w.in.Spec.Source = authority.Generated
	_, err := authority.Decide(w.in)
	authoritytest.WantProblem(t, err, "2 certificates", "generateCertificateAuthority")
}

func TestAPlaceholderForTheKeyOfAClientsCA(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	w.in.KeySecret.Data["ca.key"] = []byte("kept elsewhere")
	_, err := authority.Decide(w.in)
	authoritytest.WantProblem(t, err, "Secret my-cluster-ca", "ca.key")
	w.in.Names = authorities.Clients.Names("my")
	d := w.settle(hold)
	if !d.Authority.IsZero() || len(d.Keys) != 0 || len(d.Published) != 1 || len(d.Warnings) != 1 {
		t.Errorf("authority zero %t, %d keys, %d published, warnings %q", d.Authority.IsZero(), len(d.Keys), len(d.Published), d.Warnings)
	}
}

func TestADamagedKeyOfAClientsCAIsNoPlaceholder(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	w.in.Names = authorities.Clients.Names("my")
	key := chain.issuing.Key().PEM()
	block, _ := pem.Decode(key)
	wide := func(text []byte) []byte { return bytes.Join(bytes.Split(text, nil), []byte{0}) }
	for name, text := range map[string][]byte{
		"base64 of PEM":             []byte(base64.StdEncoding.EncodeToString(key)),
		"base64 without boundaries": []byte(base64.StdEncoding.EncodeToString(block.Bytes)),
		"DER":                       block.Bytes,
		"UTF-16":                    wide(key),
		"a short boundary":          key[1:],
		"no first line":             key[bytes.IndexByte(key, '\n')+1:],
		"literal line breaks":       bytes.ReplaceAll(key, []byte("\n"), []byte(`\n`)),
		"spaces in the boundary":    bytes.ReplaceAll(key, []byte("-----BEGIN"), []byte("- - -BEGIN")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := w.in
			in.KeySecret.Data = map[string][]byte{"ca.key": text}
			if _, err := authority.Decide(in); err == nil || !strings.Contains(err.Error(), "Secret my-clients-ca: ca.key") {
				t.Errorf("it is said %v", err)
			}
		})
	}
}

func TestAClientsCAWithoutAKeyOnlyVerifies(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string][]byte{"an empty key": {"ca.key": {}}, "no key": {}, "no data": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := userWorld(t)
			w.in.Names = authorities.Clients.Names("my")
			w.in.KeySecret.Data = data
			d := w.settle(hold)
			if !d.Authority.IsZero() || len(d.Published) != 1 || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Text, "placeholder") {
				t.Errorf("authority zero %t, %d published, warnings %q", d.Authority.IsZero(), len(d.Published), d.Warnings)
			}
		})
	}
}

// Clients trust a root or they do not: it is no use in a handshake, in however many versions it stands behind the CA.
func TestARootIsNotPresented(t *testing.T) {
	t.Parallel()
	root := pkitest.CA(t, "root", noon())
	earlier := pkitest.Changed(t, root, root, func(c *x509.Certificate) { c.NotAfter = noon().Add(200 * day) })
	issuing := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(*x509.Certificate) {})
	limited := pkitest.Changed(t, root, root, pathLength(1))
	before := pkitest.Changed(t, limited, limited, func(c *x509.Certificate) { c.NotAfter = noon().Add(200 * day) })
	below := pkitest.Changed(t, limited, pkitest.CA(t, "issuing", noon()), pathLength(0))
	for name, c := range map[string]struct {
		ca        pki.Authority
		chain     []*x509.Certificate
		presented int
	}{
		"a root alone":                  {root, []*x509.Certificate{root.Certificate()}, 0},
		"a root twice":                  {root, []*x509.Certificate{root.Certificate(), root.Certificate()}, 0},
		"an intermediate":               {issuing, []*x509.Certificate{issuing.Certificate(), root.Certificate()}, 1},
		"an intermediate, a root twice": {issuing, []*x509.Certificate{issuing.Certificate(), root.Certificate(), root.Certificate()}, 1},
		"a root in two versions":        {issuing, []*x509.Certificate{issuing.Certificate(), root.Certificate(), earlier.Certificate()}, 1},
		"a limited root, two versions":  {below, []*x509.Certificate{below.Certificate(), limited.Certificate(), before.Certificate()}, 1},
		"a root alone, two versions":    {root, []*x509.Certificate{root.Certificate(), earlier.Certificate()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := userWorld(t)
			w.in.KeySecret.Data["ca.key"], w.in.CertSecret.Data["ca.crt"] = c.ca.Key().PEM(), pki.EncodeBundle(c.chain...)
			if presents := w.decide().Authority.Presents(); len(presents) != c.presented {
				t.Errorf("%d are presented with each leaf, want %d", len(presents), c.presented)
			}
		})
	}
}

func TestAnExpiredRootThatNoPathNeedsIsAWarning(t *testing.T) {
	t.Parallel()
	root := pkitest.CA(t, "root", noon())
	gone := pkitest.Changed(t, root, root, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon().Add(-400*day), noon().Add(-day) })
	issuing := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(*x509.Certificate) {})
	for name, c := range map[string]struct {
		ca             pki.Authority
		before, behind []*x509.Certificate
		wrong          string
	}{
		"behind the present root":       {issuing, nil, []*x509.Certificate{root.Certificate(), gone.Certificate()}, ""},
		"before the present root":       {issuing, nil, []*x509.Certificate{gone.Certificate(), root.Certificate()}, ""},
		"between copies of the root":    {issuing, nil, []*x509.Certificate{root.Certificate(), gone.Certificate(), root.Certificate()}, ""},
		"behind a root that signs":      {root, nil, []*x509.Certificate{gone.Certificate()}, ""},
		"before a root that signs":      {root, []*x509.Certificate{gone.Certificate()}, nil, ""},
		"in place of the present root":  {issuing, nil, []*x509.Certificate{gone.Certificate()}, "expired"},
		"twice, and no present version": {issuing, nil, []*x509.Certificate{gone.Certificate(), gone.Certificate()}, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := userWorld(t)
			w.in.KeySecret.Data["ca.key"] = c.ca.Key().PEM()
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(slices.Concat(c.before, []*x509.Certificate{c.ca.Certificate()}, c.behind)...)
			d, err := authority.Decide(w.in)
			if c.wrong != "" {
				authoritytest.WantProblem(t, err, "Secret my-cluster-ca-cert", c.wrong)
				return
			}
			if err != nil || !d.Certificate.Equal(c.ca.Certificate()) || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Text, "expired") || !strings.Contains(d.Warnings[0].Text, "remove it") {
				t.Errorf("%v, warnings are %q", err, d.Warnings)
			}
		})
	}
}

func TestBadSecretsOfAUserAreReportedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change   func(t *testing.T, w *world, chain chained)
		mentions []string
	}{
		"both Secrets are missing": {
			func(_ *testing.T, w *world, _ chained) {
				w.in.KeySecret, w.in.CertSecret = authority.Stored{}, authority.Stored{}
			},
			[]string{"Secret my-cluster-ca:", "Secret my-cluster-ca-cert:", "generateCertificateAuthority", "strimzi.io/cluster=my"},
		},
		"the chain is in the wrong order": {
			func(_ *testing.T, w *world, chain chained) {
				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(chain.root, chain.issuing.Certificate())
			},
			[]string{"out of order", "root last"},
		},
		"the key belongs to the root": {
			func(t *testing.T, w *world, _ chained) {
				t.Helper()

				w.in.KeySecret.Data["ca.key"] = pkitest.CA(t, "x", noon()).Key().PEM()
			},
			[]string{"ca.key does not belong"},
		},
		"the chain has expired": {
			func(_ *testing.T, w *world, _ chained) { w.in.Now = noon().Add(400 * day) },
			[]string{"expired"},
		},
		"the certificate is a leaf": {
			func(t *testing.T, w *world, chain chained) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(leafOf(t, chain.issuing))
			},
			[]string{"not a CA"},
		},
		"certificate and key are swapped": {
			func(_ *testing.T, w *world, _ chained) {
				w.in.CertSecret.Data["ca.crt"], w.in.KeySecret.Data["ca.key"] = w.in.KeySecret.Data["ca.key"], w.in.CertSecret.Data["ca.crt"]
			},
			[]string{"a private key was found", "ca.key"},
		},
		"two CAs that do not belong together": {
			func(t *testing.T, w *world, chain chained) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(chain.issuing.Certificate(), pkitest.CA(t, "root", noon()).Certificate())
			},
			[]string{"not signed by"},
		},
		"entries are missing": {
			func(_ *testing.T, w *world, _ chained) {
				delete(w.in.CertSecret.Data, "ca.crt")
				delete(w.in.KeySecret.Data, "ca.key")
			},
			[]string{"the key ca.crt is missing", "the key ca.key is missing"},
		},
		"another entry is garbage": {
			func(_ *testing.T, w *world, _ chained) { w.in.CertSecret.Data["old.crt"] = []byte("garbage") },
			[]string{"old.crt"},
		},
		"a root with an endless key": {
			func(t *testing.T, w *world, chain chained) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(chain.issuing.Certificate(), pkitest.Oversized(t, pkitest.CA(t, "root", noon()), 400_000))
			},
			[]string{"Secret my-cluster-ca-cert", "ca.crt", "block 2", "400000 bits: at most 8192"},
		},
		"an endless key": {
			func(t *testing.T, w *world, _ chained) {
				t.Helper()

				w.in.KeySecret.Data["ca.key"] = pkitest.OversizedKey(t, 100_000)
			},
			[]string{"Secret my-cluster-ca", "ca.key", "100000 bits: at most 8192"},
		},
		"more certificates than a chain has": {
			func(_ *testing.T, w *world, chain chained) {
				w.in.CertSecret.Data["ca.crt"] = bytes.Repeat(pki.EncodeBundle(chain.root), 11)
			},
			[]string{"Secret my-cluster-ca-cert", "ca.crt", "11 PEM blocks: at most 10"},
		},
		"another entry with more of them": {
			func(_ *testing.T, w *world, chain chained) {
				w.in.CertSecret.Data["ca-old.crt"] = bytes.Repeat(pki.EncodeBundle(chain.root), 11)
			},
			[]string{"Secret my-cluster-ca-cert", "ca-old.crt", "11 PEM blocks: at most 10"},
		},
		"an entry that is longer than any chain": {
			func(_ *testing.T, w *world, _ chained) {
				w.in.CertSecret.Data["old.crt"] = bytes.Repeat([]byte(" "), 256<<10+1)
			},
			[]string{"Secret my-cluster-ca-cert", "old.crt", "at most 262144"},
		},
		"a generation that is none": {
			func(_ *testing.T, w *world, _ chained) {
				w.in.CertSecret.Annotations["strimzi.io/ca-cert-generation"] = "three"
			},
			[]string{"strimzi.io/ca-cert-generation", "three"},
		},
		"a key generation below zero": {
			func(_ *testing.T, w *world, _ chained) {
				w.in.KeySecret.Annotations["strimzi.io/ca-key-generation"] = "-1"
			},
			[]string{"strimzi.io/ca-key-generation", "-1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, chain := userWorld(t)
			tc.change(t, w, chain)
			_, err := authority.Decide(w.in)
			authoritytest.WantProblem(t, err, tc.mentions...)
		})
	}
}

func TestRequestsThatOnlyTheMakerCanServeAreNamed(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	if warnings := authority.Misasked(w.in); len(warnings) > 0 {
		t.Fatalf("without a request: %q", warnings)
	}
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.asks(authority.AbortReplaceAnnotation, "true")
	w.in.CertSecret.Annotations[authorities.ForceRenewAnnotation] = "true"
	warnings := strings.Join(sentences(authority.Misasked(w.in)), "\n")
	for _, annotation := range []string{authorities.ForceReplaceAnnotation, authority.AbortReplaceAnnotation, authorities.ForceRenewAnnotation} {
		if !strings.Contains(warnings, annotation) {
			t.Errorf("%s is not named: %q", annotation, warnings)
		}
	}
}

// clientsWorld is a cluster with a clients CA of the user's.
func clientsWorld(tb testing.TB) (*world, chained) {
	tb.Helper()
	w, chain := userWorld(tb)
	w.in.Names = authorities.Clients.Names("my")
	return w, chain
}

func TestEveryFurtherCAOfAUsersClientsCAIsTrustedBesideIt(t *testing.T) {
	t.Parallel()
	w, chain := clientsWorld(t)
	second, third := pkitest.CA(t, "second", noon()), newChain(t)
	ended := pkitest.CA(t, "ended", noon().Add(-400*day))
	for entry, bundle := range map[string][]*x509.Certificate{
		"second.crt":   {second.Certificate()},
		"again.crt":    {second.Certificate()},
		"third.crt":    {third.issuing.Certificate(), third.root},
		"ended.crt":    {ended.Certificate()},
		"a-leaf.crt":   {leafOf(t, second)},
		"the-same.crt": {chain.issuing.Certificate()},
	} {
		w.in.CertSecret.Data[entry] = pki.EncodeBundle(bundle...)
	}
	d := w.decide()
	if len(d.Kept) != 2 || !containsCert(d.Kept, second.Certificate()) || !containsCert(d.Kept, third.issuing.Certificate()) {
		t.Errorf("%d are kept beside it, want the second and the issuing one of the third", len(d.Kept))
	}
	if len(d.Published) != 3 || !d.Published[0].Equal(chain.issuing.Certificate()) {
		t.Errorf("%d are published, want the clients CA first and two beside it", len(d.Published))
	}
	w.in.Names = authorities.Cluster.Names("my")
	if d := w.decide(); len(d.Kept) != 0 || len(d.Published) != 1 {
		t.Errorf("beside a cluster CA %d are kept", len(d.Kept))
	}
}

func TestAFurtherCAThatSignsNothingUsableIsNamed(t *testing.T) {
	t.Parallel()
	w, _ := clientsWorld(t)
	second := pkitest.CA(t, "second", noon())
	second = pkitest.Changed(t, second, second, usages(x509.ExtKeyUsageServerAuth))
	w.in.CertSecret.Data["second.crt"] = pki.EncodeBundle(second.Certificate())
	_, err := authority.Decide(w.in)
	authoritytest.WantProblem(t, err, "second.crt", "client auth")
}

func TestWhatAUserTakesOutOfTheSecretIsRemoved(t *testing.T) {
	t.Parallel()
	w, chain := clientsWorld(t)
	dated, second := pkitest.CA(t, "retired", noon().Add(-day)).Certificate(), pkitest.CA(t, "second", noon()).Certificate()
	w.trusts(chain.issuing.Certificate(), dated, second)
	w.in.CertSecret.Data[authority.DatedCertKey(dated)] = pki.EncodeBundle(dated)
	w.in.CertSecret.Data["second.crt"] = pki.EncodeBundle(second)
	if d := w.decide(); len(d.Removed) != 0 {
		t.Fatalf("%d are removed, and nobody has taken anything out", len(d.Removed))
	}
	delete(w.in.CertSecret.Data, authority.DatedCertKey(dated))
	delete(w.in.CertSecret.Data, "second.crt")
	if d := w.decide(); len(d.Removed) != 2 || len(d.Kept) != 0 {
		t.Errorf("%d are removed, want those that were taken out", len(d.Removed))
	}
}
