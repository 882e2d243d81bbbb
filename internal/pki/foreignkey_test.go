package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// longPrime is an RSA key in PKCS#1 with a modulus of usual length and one prime of so many bits.
func longPrime(t *testing.T, bits uint) []byte {
	t.Helper()
	one := big.NewInt(1)
	der, err := asn1.Marshal(struct {
		Version int
		N       *big.Int
		E       int
		D, P    *big.Int
		Q       *big.Int
		A, B, C *big.Int
	}{0, new(big.Int).Lsh(one, 2047), 65537, one, new(big.Int).Lsh(one, bits-1), one, one, one, one})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestEachNumberOfAKeyIsBoundedBeforeItIsParsed(t *testing.T) {
	t.Parallel()
	long := longPrime(t, pki.MaxRSABits+1)
	for name, read := range map[string]func(key []byte) error{
		"a private key": func(key []byte) error { _, err := pki.ParsePrivateKey(key); return err },
		"a key pair": func(key []byte) error {
			_, err := pki.KeyPair(pki.EncodeBundle(newCA(t, "a").Certificate()), key)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, key := range [][]byte{pkitest.PKCS8(t, long), pkitest.OversizedKey(t, pki.MaxRSABits+1)} {
				if err := read(key); err == nil || !strings.Contains(err.Error(), "8193 bits: at most 8192") {
					t.Errorf("error %v, want one that names its length", err)
				}
			}
			if err := read(bytes.Repeat([]byte("x"), pki.MaxChainBytes+1)); err == nil || !strings.Contains(err.Error(), "at most 262144") {
				t.Errorf("error %v, want one that names the limit", err)
			}
		})
	}
	if _, err := pki.KeyPair(pki.EncodeBundle(newCA(t, "a").Certificate()), block("RSA PRIVATE KEY", long)); err == nil || !strings.Contains(err.Error(), "8193 bits") {
		t.Errorf("error %v of a key in PKCS#1", err)
	}
	for name, text := range map[string][]byte{"in DER": long, "in PEM": block("A", long)} {
		if keys, found := pki.PrivateKeysIn(text); found || len(keys) > 0 {
			t.Errorf("a key with long numbers was read %s", name)
		}
	}
}

func TestAKeyPairIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]any{"RSA": rsaKey(t), "ECDSA": ecdsaKey(t)} {
		pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		own, err := pki.ParsePrivateKey(block("PRIVATE KEY", pkcs8))
		if err != nil {
			t.Fatal(err)
		}
		ca, err := pki.SelfSign(own, pki.CASpec{Subject: pki.Subject{CommonName: name}, Validity: day, Now: noon()})
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range forms(t, key) {
			if _, err := pki.KeyPair(pki.EncodeBundle(ca.Certificate()), block(form+"PRIVATE KEY", text)); err != nil {
				t.Errorf("%s as %q: %v", name, form, err)
			}
		}
	}
}

func TestPrivateKeysAreFoundInEveryForm(t *testing.T) {
	t.Parallel()
	request, err := pki.NewRequest(newKey(t, small()), leafSpec(t).Subject, leafSpec(t).SANs)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]any{"RSA": rsaKey(t), "ECDSA": ecdsaKey(t)} {
		for form, der := range forms(t, key) {
			pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			own, err := pki.ParsePrivateKey(block("PRIVATE KEY", pkcs8))
			if err != nil {
				t.Fatal(err)
			}
			text := block(form+"PRIVATE KEY", der)
			for where, text := range map[string][]byte{
				"in DER": der, "in PEM": text, "under another name": block("CERTIFICATE REQUEST", der),
				"behind a request": append(slices.Clone(request), text...), "with other line ends": bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
			} {
				if keys, found := pki.PrivateKeysIn(text); !found || !slices.Equal(keys, []pki.KeyID{own.ID()}) {
					t.Errorf("%s as %q %s: found %t with the keys %v", name, form, where, found, keys)
				}
			}
		}
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(edwards)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  []byte
		found bool
	}{
		"another algorithm": {other, true},
		"an encrypted one":  {block("ENCRYPTED PRIVATE KEY", []byte("a")), true},
		"one that is cut":   {block("PRIVATE KEY", other)[:40], true},
		"a request":         {request, false},
		"nothing":           {nil, false},
	} {
		if keys, found := pki.PrivateKeysIn(c.text); found != c.found || len(keys) > 0 {
			t.Errorf("%s: found %t with the keys %v", name, found, keys)
		}
	}
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecdsaKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// forms are the encodings of a key by what their PEM blocks are named besides "PRIVATE KEY".
func forms(t *testing.T, key any) map[string][]byte {
	t.Helper()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encoded := map[string][]byte{"": pkcs8}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		encoded["RSA "] = x509.MarshalPKCS1PrivateKey(key)
	case *ecdsa.PrivateKey:
		if encoded["EC "], err = x509.MarshalECPrivateKey(key); err != nil {
			t.Fatal(err)
		}
	}
	return encoded
}
