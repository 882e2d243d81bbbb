package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// Algorithm names a kind of key pair as it stands in the API.
type Algorithm string

// The algorithms that every supported server and JVM can read from a PEM store.
const (
	RSA   Algorithm = "RSA"
	ECDSA Algorithm = "ECDSA"
)

// KeyParams says what kind of key to make.
type KeyParams struct {
	Algorithm Algorithm
	// Size is the modulus length (RSA) or the curve size (ECDSA) in bits.
	Size int
}

// DefaultCAKey returns the parameters of an authority's key when only the
// algorithm was chosen; an empty algorithm means RSA.
func DefaultCAKey(alg Algorithm) KeyParams {
	if alg == ECDSA {
		return KeyParams{Algorithm: ECDSA, Size: 384}
	}
	return KeyParams{Algorithm: RSA, Size: 4096}
}

// DefaultLeafKey returns the parameters of a leaf's key when only the algorithm
// was chosen; an empty algorithm means RSA.
func DefaultLeafKey(alg Algorithm) KeyParams {
	if alg == ECDSA {
		return KeyParams{Algorithm: ECDSA, Size: 256}
	}
	return KeyParams{Algorithm: RSA, Size: 2048}
}

// String returns the parameters in words, for example "ECDSA 256".
func (p KeyParams) String() string { return fmt.Sprintf("%s %d", p.Algorithm, p.Size) }

// Validate refuses what Keyturn does not make: anything but RSA 2048, 3072 or
// 4096 and ECDSA 256, 384 or 521.
func (p KeyParams) Validate() error {
	switch p.Algorithm {
	case RSA:
		if p.Size == 2048 || p.Size == 3072 || p.Size == 4096 {
			return nil
		}
		return fmt.Errorf("key size %d is not possible for RSA: choose 2048, 3072 or 4096", p.Size)
	case ECDSA:
		if _, err := curve(p.Size); err != nil {
			return err
		}
		return nil
	default:
		return fmt.Errorf("key algorithm %q is not known: choose RSA or ECDSA", p.Algorithm)
	}
}

func curve(size int) (elliptic.Curve, error) {
	switch size {
	case 256:
		return elliptic.P256(), nil
	case 384:
		return elliptic.P384(), nil
	case 521:
		return elliptic.P521(), nil
	default:
		return nil, fmt.Errorf("key size %d is not possible for ECDSA: choose 256, 384 or 521", size)
	}
}

// redacted is all that any printing of a PrivateKey shows.
const redacted = "[private key]"

// PrivateKey is an RSA or ECDSA private key that cannot be printed by accident.
// The zero value holds no key; see IsZero.
type PrivateKey struct {
	// A function, because fmt cannot call methods of unexported fields and, with
	// a verb that does not fit, follows pointers: of a function it can only print
	// the address.
	material func() keyMaterial
}

type keyMaterial struct {
	signer crypto.Signer
	pkcs8  []byte
	spki   []byte
}

// GenerateKey makes a new key from the system's secure random source.
func GenerateKey(p KeyParams) (PrivateKey, error) {
	if err := p.Validate(); err != nil {
		return PrivateKey{}, fmt.Errorf("generating key: %w", err)
	}
	if p.Algorithm == RSA {
		key, err := rsa.GenerateKey(rand.Reader, p.Size)
		if err != nil {
			return PrivateKey{}, fmt.Errorf("generating %s key: %w", p, err)
		}
		return newPrivateKey(key)
	}
	c, err := curve(p.Size)
	if err != nil {
		return PrivateKey{}, err
	}
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generating %s key: %w", p, err)
	}
	return newPrivateKey(key)
}

func newPrivateKey(signer crypto.Signer) (PrivateKey, error) {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("encoding private key: %w", err)
	}
	spki, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return PrivateKey{}, fmt.Errorf("encoding public key: %w", err)
	}
	material := keyMaterial{signer: signer, pkcs8: pkcs8, spki: spki}
	return PrivateKey{material: func() keyMaterial { return material }}, nil
}

// IsZero tells whether k holds no key.
func (k PrivateKey) IsZero() bool { return k.material == nil }

// ID identifies the key pair; it is zero when there is no key.
func (k PrivateKey) ID() KeyID {
	if k.IsZero() {
		return KeyID{}
	}
	return sha256.Sum256(k.material().spki)
}

// Equal tells whether both hold the same key pair, or both none.
func (k PrivateKey) Equal(other PrivateKey) bool {
	return k.IsZero() == other.IsZero() && k.ID() == other.ID()
}

// Params returns algorithm and size of the key.
func (k PrivateKey) Params() KeyParams {
	if k.IsZero() {
		return KeyParams{}
	}
	params, err := ParamsOf(k.material().signer.Public())
	if err != nil {
		return KeyParams{}
	}
	return params
}

// ParamsOf returns algorithm and size of a key, or an error for one that is neither
// RSA nor ECDSA.
func ParamsOf(public crypto.PublicKey) (KeyParams, error) {
	switch key := public.(type) {
	case *rsa.PublicKey:
		return KeyParams{Algorithm: RSA, Size: key.N.BitLen()}, nil
	case *ecdsa.PublicKey:
		return KeyParams{Algorithm: ECDSA, Size: key.Curve.Params().BitSize}, nil
	default:
		return KeyParams{}, fmt.Errorf("key of type %T is neither RSA nor ECDSA", public)
	}
}

// Matches tells whether cert is about this key.
func (k PrivateKey) Matches(cert *x509.Certificate) bool {
	return !k.IsZero() && k.ID() == KeyIDOf(cert)
}

// Signed reports whether the certificate was signed with the key.
func (k PrivateKey) Signed(cert *x509.Certificate) bool {
	if k.IsZero() {
		return false
	}
	bare := x509.Certificate{PublicKey: k.Signer().Public()}
	return bare.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil
}

// Signer gives the key to crypto/tls and crypto/x509; it is nil when there is no key. Printing the result
// prints the key.
func (k PrivateKey) Signer() crypto.Signer {
	if k.IsZero() {
		return nil
	}
	return k.material().signer
}

// PEM returns the key as an unencrypted PKCS#8 block: the only form that a JVM
// reads from a PEM store.
func (k PrivateKey) PEM() []byte {
	if k.IsZero() {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockPKCS8, Bytes: k.material().pkcs8})
}

// String never shows the key.
func (k PrivateKey) String() string { return redacted }

// GoString never shows the key.
func (k PrivateKey) GoString() string { return redacted }

// Format never shows the key, whatever the verb.
func (k PrivateKey) Format(f fmt.State, _ rune) {
	// The writer is the caller's buffer; there is nothing to do about its errors.
	_, _ = io.WriteString(f, redacted)
}

// MarshalText never shows the key; it also serves JSON, YAML and structured logs.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Types of PEM blocks that are told apart.
const (
	blockCertificate = "CERTIFICATE"
	blockRequest     = "CERTIFICATE REQUEST"
	blockPKCS8       = "PRIVATE KEY"
	blockEncrypted   = "ENCRYPTED PRIVATE KEY"
	blockPKCS1       = "RSA PRIVATE KEY"
	blockSEC1        = "EC PRIVATE KEY"
	blockParameters  = "EC PARAMETERS"
)

// toPKCS8 is what a person does with a key in another form.
const toPKCS8 = "convert it with: openssl pkcs8 -topk8 -nocrypt"

// MaxRSABits is the longest RSA key that is read, private or public. In a handshake Go
// accepts no longer one either.
const MaxRSABits = 8192

func checkModulus(n *big.Int) error {
	if bits := n.BitLen(); bits > MaxRSABits {
		return fmt.Errorf("its RSA key has %d bits: at most %d are read", bits, MaxRSABits)
	}
	return nil
}

// ParsePrivateKey reads exactly one unencrypted PKCS#8 block with an RSA or
// ECDSA key, of at most MaxChainBytes and MaxRSABits. Other forms are refused by name, because a server that reads PEM
// stores would refuse them later and less clearly. Errors never contain input.
func ParsePrivateKey(data []byte) (PrivateKey, error) {
	if len(data) > MaxChainBytes {
		return PrivateKey{}, fmt.Errorf("parsing private key: %w", TooLong(len(data), MaxChainBytes))
	}
	blocks, err := Blocks(data)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("parsing private key: %w", err)
	}
	if err := checkKeyBlocks(blocks); err != nil {
		return PrivateKey{}, fmt.Errorf("parsing private key: %w", err)
	}
	if err := checkKeyNumbers(blocks[0].Bytes); err != nil {
		return PrivateKey{}, fmt.Errorf("parsing private key: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(blocks[0].Bytes)
	if err != nil {
		// The parser's text may quote what it read.
		if curve := unknownCurve(blocks[0].Bytes); curve != "" {
			return PrivateKey{}, errors.New("parsing private key: " + curve)
		}
		return PrivateKey{}, errors.New("parsing private key: the PKCS#8 block is damaged")
	}
	switch key := parsed.(type) {
	case *rsa.PrivateKey:
		return newPrivateKey(key)
	case *ecdsa.PrivateKey:
		return newPrivateKey(key)
	default:
		return PrivateKey{}, errors.New("parsing private key: neither RSA nor ECDSA: servers cannot read other kinds from PEM")
	}
}

func checkKeyBlocks(blocks []*pem.Block) error {
	switch {
	case len(blocks) > 1 && blocks[0].Type == blockParameters:
		return errors.New("EC PARAMETERS stand before the key, which is SEC1, not PKCS#8: " + toPKCS8)
	case len(blocks) != 1:
		return fmt.Errorf("%d PEM blocks found: exactly one is needed", len(blocks))
	default:
		return checkKeyBlock(blocks[0])
	}
}

func checkKeyBlock(block *pem.Block) error {
	switch block.Type {
	case blockPKCS8:
		if len(block.Headers) > 0 {
			return errors.New("the PEM block has headers: " + toPKCS8)
		}
		return nil
	case blockEncrypted:
		return errors.New("the key is encrypted: " + toPKCS8)
	case blockPKCS1:
		if block.Headers["DEK-Info"] != "" {
			return errors.New("the key is an encrypted PKCS#1 key, not PKCS#8: " + toPKCS8)
		}
		return errors.New("the key is PKCS#1, not PKCS#8: " + toPKCS8)
	case blockSEC1:
		return errors.New("the key is SEC1, not PKCS#8: " + toPKCS8)
	case blockCertificate:
		return errors.New("a certificate was found where the key should be")
	default:
		return fmt.Errorf("PEM block %q is not a private key", block.Type)
	}
}
