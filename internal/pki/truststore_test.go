package pki_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/pki"
)

func entriesOf(tb testing.TB) []pki.TrustEntry {
	tb.Helper()
	return []pki.TrustEntry{
		{Alias: "ca.crt", Certificate: newCA(tb, "cluster-ca").Certificate()},
		{Alias: "ca-2027-11-21T12-00-00Z.crt", Certificate: newCA(tb, "cluster-ca").Certificate()},
	}
}

func TestATrustStoreHoldsWhatWasPutIn(t *testing.T) {
	t.Parallel()
	entries := entriesOf(t)
	store, err := pki.EncodeTrustStore(entries, "secret")
	if err != nil {
		t.Fatal(err)
	}
	reversed := slices.Clone(entries)
	slices.Reverse(reversed)
	if !pki.TrustStoreHolds(store, "secret", entries) || !pki.TrustStoreHolds(store, "secret", reversed) {
		t.Error("the store does not hold its entries")
	}
	if pki.TrustStoreHolds(store, "wrong", entries) {
		t.Error("the wrong password opens it")
	}
	if pki.TrustStoreHolds(store, "secret", entries[:1]) || pki.TrustStoreHolds(store, "secret", []pki.TrustEntry{entries[0], entries[0]}) {
		t.Error("another set of entries is said to be in it")
	}
	if pki.TrustStoreHolds([]byte("nothing"), "secret", entries) {
		t.Error("garbage holds entries")
	}
}

func TestAliasesMustBeUnique(t *testing.T) {
	t.Parallel()
	entries := entriesOf(t)
	entries[1].Alias = entries[0].Alias
	if _, err := pki.EncodeTrustStore(entries, "secret"); err == nil {
		t.Error("one alias was used twice")
	}
	if _, err := pki.EncodeTrustStore(nil, "secret"); err == nil {
		t.Error("an empty store was made")
	}
}

// A JVM keeps one entry per alias. If aliases were subjects, one of two CAs with
// equal names would vanish, and with it the trust in half of the cluster.
func TestAJVMReadsTwoCAsOfOneNameAsTwoEntries(t *testing.T) {
	t.Parallel()
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("no keytool: install a JRE to run this test")
	}
	entries := entriesOf(t)
	store, err := pki.EncodeTrustStore(entries, "secret12")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.p12")
	if err := os.WriteFile(path, store, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), keytool, "-J-Duser.language=en", "-list", "-storetype", "PKCS12", "-keystore", path, "-storepass", "secret12").CombinedOutput()
	if err != nil {
		t.Fatalf("keytool: %v\n%s", err, out)
	}
	got := regexp.MustCompile(`(?m)^(\S+), .*trustedCertEntry`).FindAllStringSubmatch(string(out), -1)
	var aliases []string
	for _, match := range got {
		aliases = append(aliases, match[1])
	}
	slices.Sort(aliases)
	want := []string{strings.ToLower(entries[1].Alias), entries[0].Alias}
	if diff := cmp.Diff(want, aliases); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out)
	}
}

func TestAStoreThatAJVMMadeIsRead(t *testing.T) {
	t.Parallel()
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("no keytool: install a JRE to run this test")
	}
	dir := t.TempDir()
	entries := entriesOf(t)
	path := filepath.Join(dir, "ca.p12")
	for i, entry := range entries {
		pem := filepath.Join(dir, "cert.pem")
		if err := os.WriteFile(pem, pki.EncodeBundle(entry.Certificate), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), keytool, "-importcert", "-noprompt", "-storetype", "PKCS12", "-keystore", path,
			"-storepass", "secret12", "-alias", entry.Alias, "-file", pem).CombinedOutput()
		if err != nil {
			t.Fatalf("keytool, entry %d: %v\n%s", i, err, out)
		}
	}
	store, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !pki.TrustStoreHolds(store, "secret12", entries) {
		t.Error("the entries were not found")
	}
}

func TestAStoreThatCostsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	store, err := pki.EncodeTrustStore(entriesOf(t), "secret")
	if err != nil {
		t.Fatal(err)
	}
	// Modern2023 writes 2048 iterations as INTEGER 08 00.
	costly := bytes.ReplaceAll(store, []byte{2, 2, 8, 0}, []byte{2, 2, 0x7f, 0xff})
	if bytes.Equal(costly, store) {
		t.Fatal("no iteration count was found")
	}
	if _, err := pki.DecodeTrustStore(costly, "secret"); err == nil || strings.Contains(err.Error(), "iterations") {
		t.Errorf("32767 iterations: %v", err)
	}
	number := []byte{0x02, 0x04, 0x7f, 0xff, 0xff, 0xff}
	for name, der := range map[string][]byte{
		"in the outer structure":      append([]byte{0x30, 0x06}, number...),
		"inside of the authenticated": append([]byte{0x30, 0x0a, 0x04, 0x08, 0x30, 0x06}, number...),
	} {
		if _, err := pki.DecodeTrustStore(der, "secret"); err == nil || !strings.Contains(err.Error(), "iterations") {
			t.Errorf("2147483647 iterations %s: %v", name, err)
		}
	}
}

func TestPasswordsAreTwelveCharactersWithALetterFirst(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]{11}$`)
	seen := map[string]bool{}
	for range 100 {
		password, err := pki.NewPassword()
		if err != nil {
			t.Fatal(err)
		}
		if !form.MatchString(password) || seen[password] {
			t.Fatalf("%q has another form or came twice", password)
		}
		seen[password] = true
	}
}

func FuzzDecodeTrustStore(f *testing.F) {
	store, err := pki.EncodeTrustStore(entriesOf(f), "secret")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(store, "secret")
	f.Add(store, "wrong")
	f.Add([]byte{0x30, 0x80}, "")
	f.Fuzz(func(t *testing.T, data []byte, password string) {
		t.Helper()

		certs, err := pki.DecodeTrustStore(data, password)
		if err == nil {
			for _, cert := range certs {
				pki.FingerprintOf(cert)
			}
		}
	})
}
