package authority_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestALostKeyIsAReplacementAndKeepsTheOldCertificate(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 4, 2
	old, password := w.cert(), string(w.in.CertSecret.Data["ca.password"])
	w.in.KeySecret = authority.Stored{}
	d := w.step()
	wantKinds(t, d, authority.KeyReplaced)
	wantGenerations(t, d, 5, 3)
	if got := w.cert().Subject.String(); got != "CN=cluster-ca v3,O=io.strimzi" {
		t.Errorf("subject %q", got)
	}
	if kept := parse(t, d.Cert.Data[authority.DatedCertKey(old)]); !kept.Equal(old) {
		t.Error("another certificate is under the dated name")
	}
	if string(d.Cert.Data["ca.password"]) != password {
		t.Error("the password of the store changed")
	}
	if !pki.TrustStoreHolds(d.Cert.Data["ca.p12"], password, []pki.TrustEntry{
		{Alias: "ca.crt", Certificate: w.cert()}, {Alias: authority.DatedCertKey(old), Certificate: old},
	}) {
		t.Error("the store does not hold both")
	}
	before := w.in
	d = w.step()
	wantKinds(t, d)
	wantGenerations(t, d, 5, 3)
	wantSameData(t, before.CertSecret.Data, d.Cert.Data)
	if _, left := d.Key.Data[authority.PendingCertKey]; left {
		t.Error("the pending certificate is left although the replacement is complete")
	}
	// Pods still trust the old certificate alone: the pair is not foreign for that.
	wantKinds(t, w.step())
}

func TestACreationDiscardsWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := other(t, "before", noon()).Certificate()
	w.in.CertSecret = authority.Stored{Exists: true, Data: map[string][]byte{
		"ca.crt": pki.EncodeBundle(before), authority.DatedCertKey(before): pki.EncodeBundle(before), "extra.crt": pki.EncodeBundle(before), "mine.p12": []byte("x"),
	}}
	d := w.step()
	wantKinds(t, d, authority.Created)
	if len(d.Cert.Data) != 3 || len(d.Anchors()) != 1 {
		t.Errorf("%d entries and %d anchors, want the new certificate, its store and password alone", len(d.Cert.Data), len(d.Anchors()))
	}
}

func TestANameSavesTheGenerationOfALostKey(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.KeySecret = authority.Stored{}
	w.step()
	w.trusts(w.cert())
	w.in.KeySecret = authority.Stored{}
	wantGenerations(t, w.step(), 2, 2)
}

func TestWhenBothSecretsAreLostTheTrustedAnchorIsKept(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	w.in.KeySecret, w.in.CertSecret = authority.Stored{}, authority.Stored{}
	d := w.step()
	wantKinds(t, d, authority.KeyReplaced)
	wantGenerations(t, d, 1, 1)
	if len(d.Retained) != 1 || !d.Retained[0].Equal(old) {
		t.Errorf("retained %d certificates, want the one that pods trust", len(d.Retained))
	}
	d = w.step()
	wantKinds(t, d)
	if len(d.Retained) != 1 {
		t.Error("it is gone with the next decision")
	}
}

// A crash may come between any two writes; the next decision has to end where
// the first one would have.
func TestACrashBetweenTheWritesOfAReplacementIsFinished(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world){
		"the certificate Secret was there": func(*world) {},
		"the certificate Secret was lost too": func(w *world) {
			w.in.CertSecret = authority.Stored{}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			old := w.cert()
			w.in.KeySecret = authority.Stored{}
			change(w)
			first := w.decide()
			w.writeKey(first)
			d := w.step()
			wantKinds(t, d, authority.KeyReplaced)
			wantGenerations(t, d, 1, 1)
			if !d.Certificate.Equal(first.Certificate) {
				t.Error("another authority was made")
			}
			if len(d.Retained) != 1 || !d.Retained[0].Equal(old) {
				t.Error("the old certificate was not kept")
			}
			wantKinds(t, w.step())
		})
	}
}

func TestACrashBetweenTheWritesOfACreationKeepsTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.decide()
	w.writeKey(first)
	d := w.step()
	wantKinds(t, d, authority.Recreated)
	if !bytes.Equal(d.Key.Data["ca.key"], first.Key.Data["ca.key"]) {
		t.Error("the key changed")
	}
	wantKinds(t, w.step())
}

func TestRetainedCertificatesLeaveWhenTheyExpireOrAreNotNeeded(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	expired := other(t, "expired", noon().Add(-400*day)).Certificate()
	unneeded := other(t, "unneeded", noon()).Certificate()
	needed := other(t, "needed", noon().Add(-day)).Certificate()
	for _, cert := range []*x509.Certificate{expired, unneeded, needed} {
		w.in.CertSecret.Data[authority.DatedCertKey(cert)] = pki.EncodeBundle(cert)
	}
	w.in.Retire = []pki.Fingerprint{pki.FingerprintOf(unneeded)}
	d := w.step()
	wantKinds(t, d, authority.OldRemoved, authority.OldRemoved)
	if len(d.Retained) != 1 || !d.Retained[0].Equal(needed) {
		t.Errorf("%d are retained", len(d.Retained))
	}
	if len(d.Cert.Data) != 4 {
		t.Errorf("%d entries, want the certificate, the store, its password and one retained", len(d.Cert.Data))
	}
}

func TestUnreadableEntriesAreDroppedAndOtherStoresKept(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.CertSecret.Data["ca-2030-01-01T00-00-00Z.crt"] = []byte("garbage")
	w.in.CertSecret.Data["note.txt"] = []byte("hello")
	w.in.CertSecret.Data["mine.p12"] = []byte("mine")
	w.in.CertSecret.Data["mine.password"] = []byte("mine")
	extra := other(t, "extra", noon()).Certificate()
	w.in.CertSecret.Data["extra.crt"] = pki.EncodeBundle(extra)
	d := w.step()
	for key, want := range map[string]bool{"ca-2030-01-01T00-00-00Z.crt": false, "note.txt": false, "mine.p12": true, "mine.password": true, "extra.crt": true} {
		if _, kept := d.Cert.Data[key]; kept != want {
			t.Errorf("%s kept: %t, want %t", key, kept, want)
		}
	}
	if len(d.Anchors()) != 1 {
		t.Error("an entry that somebody added became an anchor")
	}
}

func TestARetiredKeyLeavesWithItsCertificate(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.KeySecret.Data["ca-2026-11-20T12-00-00Z.key"] = []byte("past")
	w.in.KeySecret.Data["ca-2026-11-22T12-00-00Z.key"] = []byte("future")
	w.in.KeySecret.Data["ca-someday.key"] = []byte("no date")
	if diff := cmp.Diff([]string{"ca-2026-11-22T12-00-00Z.key", "ca.key"}, slices.Sorted(maps.Keys(w.decide().Key.Data))); diff != "" {
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
	cert := other(t, "x", noon()).Certificate()
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
	if len(d.Cert.Data) != 1 {
		t.Errorf("%d entries are left, want ca.crt alone", len(d.Cert.Data))
	}
	w.in.Stores = authority.WithStores
	d = w.step()
	wantKinds(t, d)
	if len(d.Cert.Data) != 3 {
		t.Errorf("%d entries, want the store and its password back", len(d.Cert.Data))
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
			if got := string(d.Cert.Data["ca.password"]); (got == password) != tc.samePassword {
				t.Errorf("same password: %t", got == password)
			}
			if !pki.TrustStoreHolds(d.Cert.Data["ca.p12"], string(d.Cert.Data["ca.password"]), []pki.TrustEntry{{Alias: "ca.crt", Certificate: w.cert()}}) {
				t.Error("the store was not repaired")
			}
		})
	}
}
