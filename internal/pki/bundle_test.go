package pki_test

import (
	"bytes"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestABundleIsReadInItsOrder(t *testing.T) {
	t.Parallel()
	a, b := newCA(t, "a").Certificate(), newCA(t, "b").Certificate()
	certs, err := pki.ParseBundle(append([]byte("\n\n"), append(pki.EncodeBundle(b), append([]byte("\r\n \n"), pki.EncodeBundle(a)...)...)...))
	if err != nil {
		t.Fatal(err)
	}
	if len(certs) != 2 || !certs[0].Equal(b) || !certs[1].Equal(a) {
		t.Errorf("got %d certificates in another order", len(certs))
	}
	first, err := pki.FirstCertificate(pki.EncodeBundle(b, a))
	if err != nil || !first.Equal(b) {
		t.Errorf("the first is %v, %v", first, err)
	}
}

func TestWhatIsNoBundleIsRefusedByName(t *testing.T) {
	t.Parallel()
	good := pki.EncodeBundle(newCA(t, "a").Certificate())
	damagedFirst := append(bytes.Replace(good, []byte("MII"), []byte("!!!"), 1), good...)
	tests := map[string]struct {
		input []byte
		names string
	}{
		"nothing":                         {nil, "empty"},
		"blanks":                          {[]byte("\n\t "), "empty"},
		"garbage":                         {[]byte("hello"), "no PEM block"},
		"two blocks on one line":          {slices.Concat(bytes.TrimSpace(good), good), "block 1 is damaged"},
		"a block in a line of text":       {append([]byte("ca: "), good...), "block 1 is damaged"},
		"a block without its beginning":   {append(slices.Clone(good), good[bytes.IndexByte(good, '\n')+1:]...), "block 2 is damaged"},
		"a block without its end":         {slices.Concat(bytes.Split(good, []byte("-----END"))[0], good), "block 1 is damaged"},
		"a block without both":            {append(slices.Clone(good), bytes.Split(good, []byte("-----END"))[0][bytes.IndexByte(good, '\n')+1:]...), "block 2 is damaged"},
		"a certificate cut off":           {good[:len(good)-30], "cut off"},
		"a damaged one before a good one": {damagedFirst, "block 1 is damaged"},
		"a second one cut off":            {append(slices.Clone(good), good[:100]...), "block 2 is damaged"},
		"a private key":                   {newKey(t, small()).PEM(), "private key"},
		"a key after a certificate":       {append(slices.Clone(good), newKey(t, small()).PEM()...), "block 2: a private key"},
		"another kind of block":           {block("X509 CRL", []byte{1}), "X509 CRL"},
		"a block that is no certificate":  {block("CERTIFICATE", []byte("nothing")), "damaged"},
		"a block with headers":            {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: []byte{1}}), "headers"},
		"too much":                        {bytes.Repeat([]byte(" "), pki.MaxBundleBytes+1), "at most"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pki.ParseBundle(tc.input)
			if err == nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("got %v, want an error that names %q", err, tc.names)
			}
		})
	}
}

// surrounded has text where RFC 7468 lets it be: before, between and after blocks.
func surrounded(before, between, after string, first, second []byte) []byte {
	return slices.Concat([]byte(before), first, []byte(between), second, []byte(after))
}

func TestTextAroundBlocksIsSkipped(t *testing.T) {
	t.Parallel()
	a, b := newCA(t, "a").Certificate(), newCA(t, "b").Certificate()
	for name, text := range map[string]string{
		"comments":                 "# company root, 2026\n",
		"openssl x509 -text":       "Certificate:\n    Data:\n        Version: 3 (0x2)\n        Signature Algorithm: sha256WithRSAEncryption\n            04:d3:a1:\n",
		"openssl pkcs12 -nodes":    "Bag Attributes\n    localKeyID: 01 00 00 00 \n    friendlyName: ca\nsubject=CN = root\n\nissuer=CN = root\n\n",
		"a heading":                "GlobalSign Root CA\n==================\n",
		"lines of Windows":         "Subject: CN=root\r\n\r\n",
		"a dashed line":            "----------------------------------------\n",
		"a long word that is none": strings.Repeat("x", 70) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certs, err := pki.ParseBundle(surrounded(text, text, text, pki.EncodeBundle(a), pki.EncodeBundle(b)))
			if err != nil || len(certs) != 2 || !certs[0].Equal(a) || !certs[1].Equal(b) {
				t.Errorf("got %d certificates, %v", len(certs), err)
			}
			key := newKey(t, small())
			if got, err := pki.ParsePrivateKey(surrounded(text, "", text, key.PEM(), nil)); err != nil || !bytes.Equal(got.PEM(), key.PEM()) {
				t.Errorf("the key is not read: %v", err)
			}
			request, err := pki.NewRequest(key, pki.Subject{CommonName: "a"}, pki.SANs{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pki.ParseRequest(surrounded(text, "", text, request, nil)); err != nil {
				t.Errorf("the request is not read: %v", err)
			}
		})
	}
}

func TestOneCertificateMeansOne(t *testing.T) {
	t.Parallel()
	cert := newCA(t, "a").Certificate()
	if _, err := pki.ParseCertificate(pki.EncodeBundle(cert, cert)); err == nil {
		t.Error("two were accepted")
	}
	if got, err := pki.ParseCertificate(pki.EncodeBundle(cert)); err != nil || !got.Equal(cert) {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzParseBundle(f *testing.F) {
	good := pki.EncodeBundle(newCA(f, "a").Certificate())
	f.Add(good)
	f.Add(append(slices.Clone(good), good...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Helper()

		certs, err := pki.ParseBundle(data)
		if err != nil {
			return
		}
		if len(certs) == 0 {
			t.Fatal("no certificate and no error")
		}
		if n := bytes.Count(data, []byte("-----BEGIN ")); n != len(certs) {
			t.Errorf("%d blocks became %d certificates", n, len(certs))
		}
		again, err := pki.ParseBundle(pki.EncodeBundle(certs...))
		if err != nil || len(again) != len(certs) {
			t.Errorf("what was read cannot be written and read again: %v", err)
		}
	})
}
