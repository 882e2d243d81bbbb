package authority_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestACreationDiscardsWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := pkitest.CA(t, "before", noon()).Certificate()
	w.in.CertSecret = authority.Stored{Exists: true, Data: map[string][]byte{
		"ca.crt": pki.EncodeBundle(before), authority.DatedCertKey(before): pki.EncodeBundle(before), "extra.crt": pki.EncodeBundle(before), "mine.p12": []byte("x"),
	}}
	d := w.step()
	wantKinds(t, d, authority.Created)
	if d.NoCross != "" {
		t.Error(d.NoCross)
	}
	if len(d.settled.Cert.Data) != 3 || len(d.Published) != 0 {
		t.Errorf("%d entries and %d published, want the new certificate, its store and password alone", len(d.settled.Cert.Data), len(d.Published))
	}
}

func TestANameSavesTheGenerationOfALostKey(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	losesKeys(w)
	w.step(hold, turn, finish)
	losesKeys(w)
	w.step(hold)
	wantGenerations(t, w.step(turn), 2, 2)
}

func TestACrashBetweenTheWritesOfACreationKeepsTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.settle(hold)
	w.writeKey(first)
	d := w.step()
	wantKinds(t, d, authority.Recreated)
	if !bytes.Equal(d.settled.Key.Data["ca.key"], first.settled.Key.Data["ca.key"]) {
		t.Error("the key changed")
	}
	wantKinds(t, w.step())
}

func TestUnreadableEntriesAreDroppedAndOtherStoresKept(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.CertSecret.Data["ca-2030-01-01T00-00-00Z.crt"] = []byte("garbage")
	w.in.CertSecret.Data["note.txt"] = []byte("hello")
	w.in.CertSecret.Data["mine.p12"] = []byte("mine")
	w.in.CertSecret.Data["mine.password"] = []byte("mine")
	extra := pkitest.CA(t, "extra", noon()).Certificate()
	w.in.CertSecret.Data["extra.crt"] = pki.EncodeBundle(extra)
	d := w.step()
	for key, want := range map[string]bool{"ca-2030-01-01T00-00-00Z.crt": false, "note.txt": false, "mine.p12": true, "mine.password": true, "extra.crt": true} {
		if _, kept := d.settled.Cert.Data[key]; kept != want {
			t.Errorf("%s kept: %t, want %t", key, kept, want)
		}
	}
	if len(d.Published) != 1 {
		t.Error("an entry that somebody added is published as an anchor")
	}
}

func TestARetiredKeyLeavesWithItsCertificate(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.KeySecret.Data["ca-2026-11-20T12-00-00Z.key"] = []byte("past")
	w.in.KeySecret.Data["ca-2026-11-22T12-00-00Z.key"] = []byte("future")
	w.in.KeySecret.Data["ca-someday.key"] = []byte("no date")
	if diff := cmp.Diff([]string{"ca-2026-11-22T12-00-00Z.key", "ca.key"}, slices.Sorted(maps.Keys(w.settle(hold).settled.Key.Data))); diff != "" {
		t.Error(diff)
	}
}

func TestDatedNamesAreRecognised(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"ca-2027-11-21T12-00-00Z.crt": true,
		"ca.crt":                      false,
		"ca-2027-11-21.crt":           false,
		"ca-2027-13-21T12-00-00Z.crt": false,
		"ca-2027-11-21T12-00-00Z.key": false,
		"old.crt":                     false,
	} {
		if got := authority.IsDatedCertKey(key); got != want {
			t.Errorf("IsDatedCertKey(%q) = %t", key, got)
		}
	}
	cert := pkitest.CA(t, "x", noon()).Certificate()
	if got := authority.DatedCertKey(cert); got != "ca-2027-11-21T12-00-00Z.crt" {
		t.Errorf("named %q", got)
	}
}

func TestStoresFollowTheSwitch(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Stores = authority.WithoutStores
	d := w.step()
	wantKinds(t, d)
	if len(d.settled.Cert.Data) != 1 {
		t.Errorf("%d entries are left, want ca.crt alone", len(d.settled.Cert.Data))
	}
	w.in.Stores = authority.WithStores
	d = w.step()
	wantKinds(t, d)
	if len(d.settled.Cert.Data) != 3 {
		t.Errorf("%d entries, want the store and its password back", len(d.settled.Cert.Data))
	}
}

func TestABrokenStoreIsMadeAnewUnderItsPassword(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change       func(data map[string][]byte)
		samePassword bool
	}{
		"garbage":          {func(data map[string][]byte) { data["ca.p12"] = []byte("garbage") }, true},
		"missing":          {func(data map[string][]byte) { delete(data, "ca.p12") }, true},
		"password missing": {func(data map[string][]byte) { delete(data, "ca.password") }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			password := string(w.in.CertSecret.Data["ca.password"])
			tc.change(w.in.CertSecret.Data)
			d := w.step()
			wantKinds(t, d)
			wantGenerations(t, d, 0, 0)
			if got := string(d.settled.Cert.Data["ca.password"]); (got == password) != tc.samePassword {
				t.Errorf("same password: %t", got == password)
			}
			wantStore(t, d, w.cert())
		})
	}
}

func TestARetiredCertificateLeavesWhenItExpiresOrNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	expired := pkitest.CA(t, "expired", noon().Add(-400*day)).Certificate()
	unneeded := pkitest.CA(t, "unneeded", noon()).Certificate()
	needed := pkitest.CA(t, "needed", noon().Add(-day)).Certificate()
	for _, cert := range []*x509.Certificate{expired, unneeded, needed} {
		w.in.CertSecret.Data[authority.DatedCertKey(cert)] = pki.EncodeBundle(cert)
	}
	o := w.step(func(_ *world, d authority.Decision) authority.Plan {
		return authority.Plan{Application: []*x509.Certificate{d.Certificate, needed, expired}, Signer: d.Certificate}
	})
	wantKinds(t, o, authority.OldRemoved, authority.OldRemoved)
	want := []string{authority.DatedCertKey(needed), "ca.crt", "ca.p12", "ca.password"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(o.settled.Cert.Data))); diff != "" {
		t.Error(diff)
	}
}

func TestTheBundleIsWhatThePlanSays(t *testing.T) {
	t.Parallel()
	a, b := pkitest.CA(t, "a", noon()).Certificate(), pkitest.CA(t, "b", noon()).Certificate()
	tests := map[string]struct {
		application func(present *x509.Certificate) []*x509.Certificate
		want        []string
	}{
		"in its order":                       {func(p *x509.Certificate) []*x509.Certificate { return []*x509.Certificate{b, p, a} }, []string{"b", "cluster-ca v0", "a"}},
		"strangers go":                       {func(p *x509.Certificate) []*x509.Certificate { return []*x509.Certificate{p} }, []string{"cluster-ca v0"}},
		"the present one is never forgotten": {func(*x509.Certificate) []*x509.Certificate { return []*x509.Certificate{a} }, []string{"a", "cluster-ca v0"}},
		"nothing is planned":                 {func(*x509.Certificate) []*x509.Certificate { return nil }, []string{"cluster-ca v0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(w.cert(), pkitest.CA(t, "stranger", noon()).Certificate())
			o := w.step(func(_ *world, d authority.Decision) authority.Plan {
				return authority.Plan{Application: tc.application(d.Certificate), Signer: d.Certificate}
			})
			certs, err := pki.ParseBundle(w.in.CertSecret.Data["ca.crt"])
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, cert := range certs {
				names = append(names, cert.Subject.CommonName)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Error(diff)
			}
			wantStore(t, o, certs...)
			wantGenerations(t, o, 0, 0)
		})
	}
}

func TestEachCertificateOfTheStoreHasItsOwnAlias(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	// Both end in the same second, as those of other makers may.
	a, b := pkitest.CA(t, "a", noon()).Certificate(), pkitest.CA(t, "b", noon()).Certificate()
	o := w.step(func(_ *world, d authority.Decision) authority.Plan {
		return authority.Plan{Application: []*x509.Certificate{d.Certificate, a, b}, Signer: d.Certificate}
	})
	wantStore(t, o, o.Certificate, a, b)
}

func TestCertificatesOfAnAuthorityNeverEndInTheSameSecond(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	ends := map[string]bool{authority.DatedCertKey(w.cert()): true}
	for range 3 {
		w.asks(authorities.ForceRenewAnnotation, "true")
		o := w.starts()
		for _, cert := range []*x509.Certificate{o.Certificate, o.Target()} {
			if ends[authority.DatedCertKey(cert)] {
				t.Errorf("two end at %s", cert.NotAfter)
			}
			ends[authority.DatedCertKey(cert)] = true
		}
		w.step(turn, finish)
	}
}
