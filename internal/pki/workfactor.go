package pki

import (
	"encoding/asn1"
	"fmt"
	"math/big"
)

// maxIterations bounds the key derivation that opening a store may cost: the JVM writes 10,000 and OpenSSL
// 2,048. A Secret may have any content, which must not stop the process that reads it.
const maxIterations = 1_000_000

// maxDepth bounds the nesting of a store's outer structure.
const maxDepth = 32

// checkWorkFactor refuses a PKCS#12 store whose outer structure names a number
// above maxIterations. Every number in it is a version, a length or an iteration
// count; certificates lie one OCTET STRING deeper and are not looked at.
func checkWorkFactor(store []byte) error {
	return checkNumbers(store, maxDepth, 1)
}

// checkKeyWorkFactor is checkWorkFactor for a store with a private key, whose iteration count lies one OCTET STRING
// deeper.
func checkKeyWorkFactor(store []byte) error {
	return checkNumbers(store, maxDepth, 2)
}

func checkNumbers(der []byte, depth, octetStrings int) error {
	if depth == 0 {
		return fmt.Errorf("the structure is nested more than %d times", maxDepth)
	}
	for len(der) > 0 {
		value, rest, isDER := firstValue(der)
		if !isDER {
			// Key material or salt. The decoder judges the rest.
			return nil
		}
		if err := checkNumber(value, depth, octetStrings); err != nil {
			return err
		}
		der = rest
	}
	return nil
}

func firstValue(der []byte) (value asn1.RawValue, rest []byte, isDER bool) {
	rest, err := asn1.Unmarshal(der, &value)
	return value, rest, err == nil
}

func checkNumber(value asn1.RawValue, depth, octetStrings int) error {
	switch {
	case value.IsCompound:
		return checkNumbers(value.Bytes, depth-1, octetStrings)
	case value.Class != asn1.ClassUniversal:
		return nil
	case value.Tag == asn1.TagInteger:
		if n := new(big.Int).SetBytes(value.Bytes); n.Cmp(big.NewInt(maxIterations)) > 0 {
			return fmt.Errorf("it asks for more than %d iterations", maxIterations)
		}
	case value.Tag == asn1.TagOctetString && octetStrings > 0 && isStructure(value.Bytes):
		return checkNumbers(value.Bytes, depth-1, octetStrings-1)
	}
	return nil
}

// isStructure tells a structure in an OCTET STRING from salts and digests, whose
// random bytes may well look like a number.
func isStructure(octets []byte) bool {
	value, rest, isDER := firstValue(octets)
	return isDER && value.IsCompound && len(rest) == 0
}
