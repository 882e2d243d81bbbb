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
		"garbage after a certificate":     {append(slices.Clone(good), "hello"...), "no PEM block was found after 1"},
		"garbage between certificates":    {append(append(slices.Clone(good), "# root\n"...), good...), "no PEM block was found after 1"},
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
