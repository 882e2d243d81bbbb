package pki

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
)

// Fingerprint identifies a certificate: the SHA-256 of its DER.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the identity of a parsed certificate.
func FingerprintOf(cert *x509.Certificate) Fingerprint {
	return sha256.Sum256(cert.Raw)
}

// ParseFingerprint reads 64 hex digits as String writes them; upper case is
// accepted because other tools print it.
func ParseFingerprint(s string) (Fingerprint, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != sha256.Size {
		return Fingerprint{}, fmt.Errorf("parsing fingerprint %q: want %d hex digits", s, 2*sha256.Size)
	}
	return Fingerprint(raw), nil
}

// String returns 64 lower-case hex digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// ShortLength is how many digits of a fingerprint people are shown beside a name.
const ShortLength = 8

// Short returns the first digits of what String returns: enough to tell the few
// certificates of a cluster apart, and to find one again by any tool that prints its
// SHA-256.
func (f Fingerprint) Short() string { return f.String()[:ShortLength] }

// IsZero tells whether f was never set.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// Compare orders fingerprints bytewise, for sorted output.
func (f Fingerprint) Compare(other Fingerprint) int { return slices.Compare(f[:], other[:]) }

// MarshalText renders f as String does.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	parsed, err := ParseFingerprint(string(text))
	if err != nil {
		return err
	}
	*f = parsed
	return nil
}

// KeyID identifies a key pair: the SHA-256 of its SubjectPublicKeyInfo.
type KeyID [sha256.Size]byte

// KeyIDOf returns the identity of the key that a certificate is about.
func KeyIDOf(cert *x509.Certificate) KeyID {
	return sha256.Sum256(cert.RawSubjectPublicKeyInfo)
}

// String returns 64 lower-case hex digits.
func (k KeyID) String() string { return hex.EncodeToString(k[:]) }

// AuthorityID identifies an authority as verifiers tell them apart: by its key, its
// subject and its key identifier. Two CA certificates with one AuthorityID verify the
// same leaves. With the key alone they need not: OpenSSL and the JVM look for an issuer
// by subject and key identifier, and only Go takes another identifier for a hint.
type AuthorityID [sha256.Size]byte

// AuthorityIDOf returns the identity of the authority that a CA certificate is about. A certificate
// without a key identifier has the usual one of its key, because verifiers that compare identifiers accept
// it beside any.
func AuthorityIDOf(ca *x509.Certificate) AuthorityID {
	return authorityID(ca.RawSubjectPublicKeyInfo, ca.RawSubject, ca.SubjectKeyId)
}

func authorityID(spki, subject, keyID []byte) AuthorityID {
	if len(keyID) == 0 {
		usual := sha1.Sum(publicBits(spki))
		keyID = usual[:]
	}
	hash := sha256.New()
	for _, part := range [][]byte{spki, subject, keyID} {
		sum := sha256.Sum256(part)
		hash.Write(sum[:])
	}
	return AuthorityID(hash.Sum(nil))
}

// FormerNameOf identifies the authority by which a CA certificate was issued with the
// very key that it is about: the one that this key was known as under another name. The
// result is false of what another key has signed, and of what names itself as issuer.
func FormerNameOf(cert *x509.Certificate) (AuthorityID, bool) {
	if !cert.IsCA || bytes.Equal(cert.RawIssuer, cert.RawSubject) || !SignedBy(cert, cert) {
		return AuthorityID{}, false
	}
	return authorityID(cert.RawSubjectPublicKeyInfo, cert.RawIssuer, cert.AuthorityKeyId), true
}

// String returns 64 lower-case hex digits.
func (a AuthorityID) String() string { return hex.EncodeToString(a[:]) }

// Namesakes tells whether two certificates have one subject and different keys: who
// sees subjects alone cannot tell one from the other.
func Namesakes(a, b *x509.Certificate) bool {
	return bytes.Equal(a.RawSubject, b.RawSubject) && KeyIDOf(a) != KeyIDOf(b)
}

// SHA1Name returns the 40 lower-case hex digits by which certificates are named
// in Secrets and annotations that other tools read. It is a name and
// must never decide whether two certificates are equal.
func SHA1Name(cert *x509.Certificate) string {
	sum := sha1.Sum(cert.Raw)
	return hex.EncodeToString(sum[:])
}
