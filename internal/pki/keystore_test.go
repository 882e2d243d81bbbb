package pki_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// identity is a key and its certificate by an issuer, which stands behind it.
func identity(t *testing.T, alg pki.Algorithm, issuer pki.Authority) (pki.PrivateKey, []*x509.Certificate) {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(alg))
	if err != nil {
		t.Fatal(err)
	}
	spec := pki.LeafSpec{Subject: pki.Subject{CommonName: "alice"}, Usages: []pki.Usage{pki.ClientAuth}, Validity: time.Hour, Now: time.Now()}
	leaf, err := issuer.Issue(key.Signer().Public(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return key, []*x509.Certificate{leaf, issuer.Certificate()}
}

func TestAKeyStoreHoldsWhatWasPutIn(t *testing.T) {
	t.Parallel()
	for _, alg := range []pki.Algorithm{pki.RSA, pki.ECDSA} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			issuer := pkitest.CA(t, "issuing", time.Now())
			alice, chain := identity(t, alg, issuer)
			bob, other := identity(t, alg, issuer)
			store, err := pki.EncodeKeyStore(alice, chain, "secret")
			if err != nil {
				t.Fatal(err)
			}
			if !pki.KeyStoreHolds(store, "secret", alice, chain) {
				t.Error("the store does not hold the key and its chain")
			}
			for name, holds := range map[string]bool{
				"the wrong password opens it":       pki.KeyStoreHolds(store, "wrong", alice, chain),
				"another key is said to be in it":   pki.KeyStoreHolds(store, "secret", bob, chain),
				"another certificate is said to be": pki.KeyStoreHolds(store, "secret", alice, other),
				"a shorter chain is said to be":     pki.KeyStoreHolds(store, "secret", alice, chain[:1]),
				"garbage holds a key":               pki.KeyStoreHolds([]byte("nothing"), "secret", alice, chain),
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
	alice, chain := identity(t, pki.RSA, pkitest.CA(t, "issuing", time.Now()))
	store, err := pki.EncodeKeyStore(alice, chain, "secret12")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "user.p12")
	if err := os.WriteFile(path, store, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), keytool, "-J-Duser.language=en", "-list", "-v", "-storetype", "PKCS12", "-keystore", path, "-storepass", "secret12").CombinedOutput()
	if err != nil || strings.Count(string(out), "PrivateKeyEntry") != 1 || !strings.Contains(string(out), "Certificate chain length: 2") {
		t.Fatalf("keytool: %v, want one private key with a chain of two:\n%s", err, out)
	}
}
