package pkitest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

// modulus is an odd number of so many bits. It is no product of two primes, because making a key of any
// length takes too long.
func modulus(bits uint) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return n.Add(n, big.NewInt(1))
}

// Oversized is the certificate of a CA, signed by the authority, whose RSA key has so
// many bits.
func Oversized(tb testing.TB, authority pki.Authority, bits uint) *x509.Certificate {
	tb.Helper()
	tmpl := *authority.Certificate()
	tmpl.SignatureAlgorithm = 0
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, authority.Certificate(), &rsa.PublicKey{N: modulus(bits), E: 65537}, authority.Key().Signer())
	if err != nil {
		tb.Fatal(err)
	}
	return &x509.Certificate{Raw: der}
}

// OversizedKey is an RSA key of so many bits as unencrypted PKCS#8 in PEM.
func OversizedKey(tb testing.TB, bits uint) []byte {
	tb.Helper()
	n := modulus(bits)
	key, err := asn1.Marshal(struct {
		Version                  int
		N, E, D, P, Q, DP, DQ, I *big.Int
	}{0, n, big.NewInt(65537), n, n, n, n, n, n})
	if err != nil {
		tb.Fatal(err)
	}
	return PKCS8(tb, key)
}

// PKCS8 is an RSA key in PKCS#1 as unencrypted PKCS#8 in PEM, whatever its numbers are.
func PKCS8(tb testing.TB, key []byte) []byte {
	tb.Helper()
	pkcs8, err := asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}, key})
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
