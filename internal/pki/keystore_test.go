package pki_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

func keyAndLeaf(t *testing.T, alg pki.Algorithm) pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(alg))
	if err != nil {
		t.Fatal(err)
	}
	self, err := pki.SelfSign(key, pki.CASpec{Subject: pki.Subject{CommonName: "alice"}, Validity: time.Hour, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func TestAKeyStoreHoldsWhatWasPutIn(t *testing.T) {
	t.Parallel()
	for _, alg := range []pki.Algorithm{pki.RSA, pki.ECDSA} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			alice, bob := keyAndLeaf(t, alg), keyAndLeaf(t, alg)
			store, err := pki.EncodeKeyStore(alice.Key(), alice.Certificate(), "secret")
			if err != nil {
				t.Fatal(err)
			}
			if !pki.KeyStoreHolds(store, "secret", alice.Key(), alice.Certificate()) {
				t.Error("the store does not hold the key and its certificate")
			}
			for name, holds := range map[string]bool{
				"the wrong password opens it":       pki.KeyStoreHolds(store, "wrong", alice.Key(), alice.Certificate()),
				"another key is said to be in it":   pki.KeyStoreHolds(store, "secret", bob.Key(), alice.Certificate()),
				"another certificate is said to be": pki.KeyStoreHolds(store, "secret", alice.Key(), bob.Certificate()),
				"garbage holds a key":               pki.KeyStoreHolds([]byte("nothing"), "secret", alice.Key(), alice.Certificate()),
			} {
				if holds {
					t.Error(name)
				}
			}
		})
	}
}

func TestAJVMReadsAKeyStore(t *testing.T) {
	t.Parallel()
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("no keytool: install a JRE to run this test")
	}
	alice := keyAndLeaf(t, pki.RSA)
	store, err := pki.EncodeKeyStore(alice.Key(), alice.Certificate(), "secret12")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "user.p12")
	if err := os.WriteFile(path, store, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), keytool, "-J-Duser.language=en", "-list", "-storetype", "PKCS12", "-keystore", path, "-storepass", "secret12").CombinedOutput()
	if err != nil || strings.Count(string(out), "PrivateKeyEntry") != 1 {
		t.Fatalf("keytool: %v, want one private key:\n%s", err, out)
	}
}
