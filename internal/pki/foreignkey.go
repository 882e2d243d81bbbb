package pki

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
)

// keyDepth is how deep numbers lie in the encoding of a key: the further primes of an RSA key in PKCS#8.
const keyDepth = 6

// checkKeyNumbers refuses a private key in DER, in any form, with a number above MaxRSABits. The parser computes with
// all numbers of a key before it reports how long they are. What is damaged is left to the parser.
func checkKeyNumbers(der []byte) error { return checkNumbersWithin(der, keyDepth) }

func checkNumbersWithin(der []byte, depth int) error {
	for depth > 0 && len(der) > 0 {
		value, rest, isDER := firstValue(der)
		if !isDER {
			return nil
		}
		var err error
		switch {
		case value.IsCompound, value.Tag == asn1.TagOctetString && isStructure(value.Bytes):
			err = checkNumbersWithin(value.Bytes, depth-1)
		case value.Tag == asn1.TagInteger:
			err = checkModulus(new(big.Int).SetBytes(value.Bytes))
		}
		if err != nil {
			return err
		}
		der = rest
	}
	return nil
}

// KeyPair is tls.X509KeyPair for a key and a chain that other processes have written, within the limits of ParsePrivateKey.
func KeyPair(chain, key []byte) (tls.Certificate, error) {
	if len(key) > MaxChainBytes {
		return tls.Certificate{}, fmt.Errorf("reading a key pair: the private key: %w", TooLong(len(key), MaxChainBytes))
	}
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		if err := checkKeyNumbers(block.Bytes); err != nil {
			return tls.Certificate{}, fmt.Errorf("reading a key pair: the private key: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading a key pair: %w", err)
	}
	return pair, nil
}

// PrivateKeysIn reports whether a text has a private key, in PEM or DER and in any form, and of which key pairs. A key
// that is encrypted, damaged or of another algorithm than RSA and ECDSA is found, and has no key pair.
func PrivateKeysIn(text []byte) (keys []KeyID, found bool) {
	found = bytes.Contains(text, []byte(blockPKCS8+"-----"))
	parts := [][]byte{text}
	if bytes.Contains(text, []byte(blockStart)) {
		parts = firstBlocks(text)
	}
	for _, der := range parts {
		public, is := publicOf(der)
		if id := KeyIDOfPublic(public); id != (KeyID{}) {
			keys = append(keys, id)
		}
		found = found || is
	}
	return keys, found
}

// firstBlocks are the contents of as many PEM blocks as a chain may have.
func firstBlocks(text []byte) (blocks [][]byte) {
	for range MaxChainLength {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		blocks, text = append(blocks, block.Bytes), rest
	}
	return blocks
}

// publicOf reads the DER of a private key in any of the forms that keys have. It returns nil for an algorithm that signs nothing.
func publicOf(der []byte) (public crypto.PublicKey, isKey bool) {
	if checkKeyNumbers(der) != nil {
		return nil, false
	}
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
		func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
	} {
		if key, err := parse(der); err == nil {
			signer, is := key.(crypto.Signer)
			if !is {
				return nil, true
			}
			return signer.Public(), true
		}
	}
	return nil, false
}

// KeyIDOfPublic identifies a key pair by its public key, whatever encoding of it a request has. It is zero for a key that is
// neither RSA nor ECDSA.
func KeyIDOfPublic(public crypto.PublicKey) KeyID {
	if _, err := ParamsOf(public); err != nil {
		return KeyID{}
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return KeyID{}
	}
	return sha256.Sum256(spki)
}
