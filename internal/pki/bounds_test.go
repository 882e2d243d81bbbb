package pki_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestChainsOfOthersHaveLimits(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	many := func(count int) []byte { return bytes.Repeat(pki.EncodeBundle(ca.Certificate()), count) }
	for name, c := range map[string]struct {
		text  []byte
		names string
	}{
		"as many certificates as are read":        {many(pki.MaxChainLength), ""},
		"one certificate more":                    {many(pki.MaxChainLength + 1), "11 PEM blocks: at most 10"},
		"many that are damaged":                   {bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\n"), 5000), "5000 PEM blocks: at most 10"},
		"as many bytes as are read":               {append(many(1), bytes.Repeat([]byte(" "), pki.MaxChainBytes-len(many(1)))...), ""},
		"one byte more":                           {bytes.Repeat([]byte(" "), pki.MaxChainBytes+1), "262145 bytes: at most 262144"},
		"an RSA key as long as is read":           {pki.EncodeBundle(pkitest.Oversized(t, ca, pki.MaxRSABits)), ""},
		"an RSA key that is one bit longer":       {pki.EncodeBundle(pkitest.Oversized(t, ca, pki.MaxRSABits+1)), "block 1: the certificate: its RSA key has 8193 bits: at most 8192"},
		"an RSA key that fills the entry, second": {append(many(1), pki.EncodeBundle(pkitest.Oversized(t, ca, 1_500_000))...), "block 2: the certificate: its RSA key has 1500000 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pki.ParseChain(c.text)
			if c.names == "" && err != nil || c.names != "" && (err == nil || !strings.Contains(err.Error(), c.names)) {
				t.Errorf("error %v, want one that names %q", err, c.names)
			}
		})
	}
}

func TestLongPrivateKeysAreRefusedBeforeTheyAreParsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  []byte
		names string
	}{
		"one bit too many":                              {pkitest.OversizedKey(t, pki.MaxRSABits+1), "its RSA key has 8193 bits: at most 8192"},
		"as long as nobody's key":                       {pkitest.OversizedKey(t, 150_000), "its RSA key has 150000 bits"},
		"too many bytes":                                {bytes.Repeat([]byte("x"), pki.MaxChainBytes+1), "262145 bytes: at most 262144"},
		"no key at all, though not longer than is read": {pkitest.OversizedKey(t, pki.MaxRSABits), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := pki.ParsePrivateKey(c.text); err == nil || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, want one that names %q", err, c.names)
			}
		})
	}
}
