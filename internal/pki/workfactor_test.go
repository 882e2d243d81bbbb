package pki

import (
	"encoding/asn1"
	"math/big"
	"testing"
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

func marshalled(t *testing.T, value any) []byte {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
