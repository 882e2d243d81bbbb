package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestKeysHaveTheAlgorithmAndSizeThatWereAskedFor(t *testing.T) {
	t.Parallel()
	for _, params := range []pki.KeyParams{
		{Algorithm: pki.RSA, Size: 2048},
		{Algorithm: pki.ECDSA, Size: 256},
		{Algorithm: pki.ECDSA, Size: 384},
		{Algorithm: pki.ECDSA, Size: 521},
	} {
		if got := newKey(t, params).Params(); got != params {
			t.Errorf("asked for %s, got %s", params, got)
		}
	}
}

func TestDefaultKeysFollowTheAlgorithm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ got, want pki.KeyParams }{
		"an authority without a choice": {pki.DefaultCAKey(""), pki.KeyParams{Algorithm: pki.RSA, Size: 4096}},
		"a leaf without a choice":       {pki.DefaultLeafKey(""), pki.KeyParams{Algorithm: pki.RSA, Size: 2048}},
		"an ECDSA authority":            {pki.DefaultCAKey(pki.ECDSA), pki.KeyParams{Algorithm: pki.ECDSA, Size: 384}},
		"an ECDSA leaf":                 {pki.DefaultLeafKey(pki.ECDSA), pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}},
	}
	for name, tc := range tests {
		if tc.got != tc.want {
			t.Errorf("%s: got %s, want %s", name, tc.got, tc.want)
		}
	}
}

func TestImpossibleKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, params := range []pki.KeyParams{
		{},
		{Algorithm: "DSA", Size: 2048},
		{Algorithm: pki.RSA, Size: 1024},
		{Algorithm: pki.RSA, Size: 256},
		{Algorithm: pki.ECDSA, Size: 2048},
	} {
		if _, err := pki.GenerateKey(params); err == nil {
			t.Errorf("%s was made", params)
		}
	}
}

func TestAKeySurvivesItsPEMForm(t *testing.T) {
	t.Parallel()
	for _, params := range []pki.KeyParams{small(), {Algorithm: pki.RSA, Size: 2048}} {
		key := newKey(t, params)
		read, err := pki.ParsePrivateKey(key.PEM())
		if err != nil {
			t.Fatal(err)
		}
		if read.ID() != key.ID() || !bytes.Equal(read.PEM(), key.PEM()) {
			t.Errorf("%s: another key came back", params)
		}
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func TestKeysInOtherFormsAreRefusedByName(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edDER, err := x509.MarshalPKCS8PrivateKey(edKey)
	if err != nil {
		t.Fatal(err)
	}
	good := newKey(t, small()).PEM()
	tests := map[string]struct {
		input []byte
		names string
	}{
		"PKCS#1":                 {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), "PKCS#1"},
		"SEC1":                   {block("EC PRIVATE KEY", sec1), "SEC1"},
		"an encrypted PKCS#8":    {block("ENCRYPTED PRIVATE KEY", []byte{1}), "encrypted"},
		"Ed25519":                {block("PRIVATE KEY", edDER), "neither RSA nor ECDSA"},
		"a certificate":          {pki.EncodeBundle(newCA(t, "ca").Certificate()), "certificate"},
		"nothing":                {nil, "empty"},
		"blanks":                 {[]byte(" \n"), "empty"},
		"no PEM":                 {[]byte("secret"), "no PEM block"},
		"two keys":               {append(bytes.Clone(good), good...), "2 PEM blocks"},
		"a key cut off":          {good[:len(good)/2], "cut off"},
		"damaged DER":            {block("PRIVATE KEY", []byte{0x30, 1, 2}), "damaged"},
		"text in the key's line": {append([]byte("key: "), good...), "damaged"},
		"a key under a header":   {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Headers: map[string]string{"a": "b"}, Bytes: []byte{1}}), "headers"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pki.ParsePrivateKey(tc.input)
			if err == nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("got %v, want an error that names %q", err, tc.names)
			}
		})
	}
}

func TestAKeyIsNeverPrinted(t *testing.T) {
	t.Parallel()
	key := newKey(t, small())
	ca := newCA(t, "ca")
	type holder struct {
		Exported pki.PrivateKey
		hidden   pki.PrivateKey
	}
	h := holder{Exported: key, hidden: key}
	asJSON, err := json.Marshal(map[string]any{"key": key, "holder": h})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{string(asJSON), key.String(), key.GoString()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		printed = append(printed, fmt.Sprintf(verb, key), fmt.Sprintf(verb, &key), fmt.Sprintf(verb, h), fmt.Sprintf(verb, ca))
	}
	secrets := append(waysToPrint(t, key), waysToPrint(t, ca.Key())...)
	for _, text := range printed {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("key material %q in %q", secret, text)
			}
		}
	}
}

// waysToPrint returns the secret number of an ECDSA key in the forms in which
// fmt, JSON and PEM would show it. Each is too long to stand anywhere else by
// chance.
func waysToPrint(t *testing.T, key pki.PrivateKey) []string {
	t.Helper()
	ec, ok := key.Signer().(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the key is %T, want ECDSA", key.Signer())
	}
	number, err := ec.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	secret := new(big.Int).SetBytes(number)
	return []string{
		secret.String(),
		strings.Trim(fmt.Sprint(secret.Bits()), "[]"),
		strings.Trim(fmt.Sprintf("%x", secret.Bits()), "[]"),
		strings.Trim(fmt.Sprintf("%d", number), "[]"),
		hex.EncodeToString(number),
		strings.Trim(fmt.Sprintf("%#v", number), "[]byte{}"),
		strings.Split(string(key.PEM()), "\n")[2],
	}
}

func TestNoKeyIsHarmless(t *testing.T) {
	t.Parallel()
	var none pki.PrivateKey
	if !none.IsZero() || none.PEM() != nil || none.Signer() != nil || none.Matches(newCA(t, "ca").Certificate()) {
		t.Error("the zero key pretends to be one")
	}
}

func FuzzParsePrivateKey(f *testing.F) {
	f.Add(newKey(f, small()).PEM())
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nAAAA\n-----END RSA PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Helper()

		key, err := pki.ParsePrivateKey(data)
		if err != nil {
			return
		}
		again, err := pki.ParsePrivateKey(key.PEM())
		if err != nil || again.ID() != key.ID() {
			t.Errorf("a key that was read cannot be written and read again: %v", err)
		}
	})
}
