package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"
)

func TestOnlyNumbersOfAStructureAreIterations(t *testing.T) {
	t.Parallel()
	huge := marshalled(t, big.NewInt(maxIterations+1))
	for name, c := range map[string]struct {
		store   []byte
		refused bool
	}{
		"a number of the structure":                     {marshalled(t, []asn1.RawValue{{FullBytes: huge}}), true},
		"a number of the structure in an OCTET STRING":  {marshalled(t, marshalled(t, []asn1.RawValue{{FullBytes: huge}})), true},
		"a salt whose bytes look like a number":         {marshalled(t, huge), false},
		"a digest that begins like a structure":         {marshalled(t, append(marshalled(t, []asn1.RawValue{{FullBytes: huge}}), 0)), false},
		"a number that many stores have for iterations": {marshalled(t, big.NewInt(10_000)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := checkWorkFactor(c.store); (err != nil) != c.refused {
				t.Errorf("refused: %v, want %t", err, c.refused)
			}
		})
	}
}

// A Secret that anybody may write must not cost its reader hours, wherever in the store the count is.
func TestAKeyStoreThatCostsTooMuchIsNotOpened(t *testing.T) {
	t.Parallel()
	key, err := GenerateKey(DefaultLeafKey(ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	self, err := SelfSign(key, CASpec{Subject: Subject{CommonName: "alice"}, Validity: time.Hour, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	store, err := EncodeKeyStore(key, []*x509.Certificate{self.Certificate()}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	const counts = 3 // of the key, of the certificate and of the digest
	if err := checkKeyWorkFactor(store); err != nil {
		t.Fatal(err)
	}
	for which := range counts {
		left := which
		if err := checkKeyWorkFactor(costly(t, store, &left)); err == nil {
			t.Errorf("count %d of %d is not seen", which+1, counts)
		}
		if left >= 0 {
			t.Fatalf("the store has no %d counts of 2048", which+1)
		}
	}
}

// costly rewrites a store with a count that takes hours instead of one of its counts of 2048: that before which
// so many others are.
func costly(t *testing.T, der []byte, left *int) []byte {
	t.Helper()
	var out []byte
	for len(der) > 0 {
		value, rest, isDER := firstValue(der)
		if !isDER {
			return append(out, der...)
		}
		der = rest
		switch {
		case value.IsCompound || value.Tag == asn1.TagOctetString && isStructure(value.Bytes):
			value.Bytes, value.FullBytes = costly(t, value.Bytes, left), nil
		case value.Tag == asn1.TagInteger && string(value.Bytes) == "\x08\x00":
			if *left == 0 {
				value.Bytes, value.FullBytes = []byte{0x7f, 0xff, 0xff, 0xff}, nil
			}
			*left--
		}
		out = append(out, marshalled(t, value)...)
	}
	return out
}

func marshalled(t *testing.T, value any) []byte {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
