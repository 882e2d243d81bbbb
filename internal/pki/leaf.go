package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// LeafSpec describes a certificate for a peer or a user.
type LeafSpec struct {
	Subject  Subject
	SANs     SANs
	Usages   []Usage
	Validity time.Duration
	Now      time.Time
}

// Usage is what a leaf may be used for.
type Usage string

// The two usages there are.
const (
	ServerAuth Usage = "server auth"
	ClientAuth Usage = "client auth"
)

// BothUsages is for peers that accept and open connections.
func BothUsages() []Usage { return []Usage{ServerAuth, ClientAuth} }

// Issue signs a leaf for a public key. The leaf starts Backdate before now, but
// never before its authority, and ends with its authority at the latest.
func (a Authority) Issue(public crypto.PublicKey, spec LeafSpec) (*x509.Certificate, error) {
	if a.IsZero() {
		return nil, fmt.Errorf("issuing %q: no authority", spec.Subject)
	}
	tmpl, err := a.leafTemplate(public, spec)
	if err != nil {
		return nil, fmt.Errorf("issuing %q: %w", spec.Subject, err)
	}
	return create(tmpl, a.cert, public, a.key)
}

func (a Authority) leafTemplate(public crypto.PublicKey, spec LeafSpec) (*x509.Certificate, error) {
	if err := checkLeafSpec(spec); err != nil {
		return nil, err
	}
	if !spec.Now.Before(a.cert.NotAfter) {
		return nil, fmt.Errorf("the CA %q expired at %s", a.cert.Subject, a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	params, err := ParamsOf(public)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	ski := sha1.Sum(publicBits(spki))
	tmpl := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               spec.Subject.name(),
		NotBefore:             latest(spec.Now.Add(-Backdate), a.cert.NotBefore).UTC(),
		NotAfter:              earliest(spec.Now.Add(spec.Validity), a.cert.NotAfter).UTC(),
		KeyUsage:              leafKeyUsage(params.Algorithm),
		BasicConstraintsValid: true,
		DNSNames:              spec.SANs.DNS,
		SubjectKeyId:          ski[:],
		AuthorityKeyId:        a.cert.SubjectKeyId,
	}
	for _, ip := range spec.SANs.IPs {
		tmpl.IPAddresses = append(tmpl.IPAddresses, ip.AsSlice())
	}
	for _, usage := range spec.Usages {
		tmpl.ExtKeyUsage = append(tmpl.ExtKeyUsage, usage.ext())
	}
	return tmpl, nil
}

func checkLeafSpec(spec LeafSpec) error {
	if spec.Validity <= 0 {
		return fmt.Errorf("a leaf cannot be valid for %s", spec.Validity)
	}
	// RFC 5280 ub-common-name.
	if n := len([]rune(spec.Subject.CommonName)); n == 0 || n > 64 {
		return fmt.Errorf("the common name has %d characters: 1 to 64 are possible", n)
	}
	if len(spec.Usages) == 0 {
		return errors.New("no usage is given")
	}
	for _, usage := range spec.Usages {
		if usage != ServerAuth && usage != ClientAuth {
			return fmt.Errorf("usage %q is not known", usage)
		}
	}
	_, err := NewSANs(spec.SANs.Values()...)
	return err
}

func (u Usage) ext() x509.ExtKeyUsage {
	if u == ClientAuth {
		return x509.ExtKeyUsageClientAuth
	}
	return x509.ExtKeyUsageServerAuth
}

// leafKeyUsage: key encipherment exists for RSA key transport only.
func leafKeyUsage(alg Algorithm) x509.KeyUsage {
	if alg == RSA {
		return x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	}
	return x509.KeyUsageDigitalSignature
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// publicBits returns the key bits inside a SubjectPublicKeyInfo, or the whole
// input when it is none.
func publicBits(spki []byte) []byte {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(spki, &info); err != nil {
		return spki
	}
	return info.Key.Bytes
}

// NewRequest makes a PKCS#10 request for a key, in PEM.
func NewRequest(key PrivateKey, subject Subject, sans SANs) ([]byte, error) {
	if key.IsZero() {
		return nil, fmt.Errorf("requesting %q: no key", subject)
	}
	tmpl := &x509.CertificateRequest{
		Subject:            subject.name(),
		DNSNames:           sans.DNS,
		SignatureAlgorithm: signatureFor(key.Params()),
	}
	for _, ip := range sans.IPs {
		tmpl.IPAddresses = append(tmpl.IPAddresses, ip.AsSlice())
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key.Signer())
	if err != nil {
		return nil, fmt.Errorf("requesting %q: %w", subject, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: der}), nil
}

// ParseRequest reads exactly one PKCS#10 request and checks that it was signed with its own key. The
// caller judges what the request asks for.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	blocks, err := Blocks(data)
	if err != nil {
		return nil, fmt.Errorf("parsing certificate request: %w", err)
	}
	if len(blocks) != 1 || blocks[0].Type != blockRequest {
		return nil, errors.New("parsing certificate request: exactly one CERTIFICATE REQUEST block is needed")
	}
	request, err := x509.ParseCertificateRequest(blocks[0].Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing certificate request: %w", err)
	}
	if key, is := request.PublicKey.(*rsa.PublicKey); is {
		if err := checkModulus(key.N); err != nil {
			return nil, fmt.Errorf("parsing certificate request: %w", err)
		}
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("parsing certificate request: its signature does not fit its key: %w", err)
	}
	if _, err := ParamsOf(request.PublicKey); err != nil {
		return nil, fmt.Errorf("parsing certificate request: %w", err)
	}
	return request, nil
}

// CheckRequest refuses a request that asks for anything but this subject and
// these names: an address book entry more, an e-mail, a URI, or an extension
// that would make it a CA.
func CheckRequest(request *x509.CertificateRequest, subject Subject, sans SANs) error {
	if !isName(request.Subject, subject) {
		return fmt.Errorf("its subject is %q, expected %q", request.Subject, subject)
	}
	if len(request.EmailAddresses) > 0 || len(request.URIs) > 0 {
		return errors.New("it asks for e-mail addresses or URIs")
	}
	have := SANsOf(&x509.Certificate{DNSNames: request.DNSNames, IPAddresses: request.IPAddresses})
	if !have.Equal(sans) {
		return fmt.Errorf("it asks for other names: too many %q, too few %q", sans.Lacks(have), have.Lacks(sans))
	}
	subjectAltName := asn1.ObjectIdentifier{2, 5, 29, 17}
	for _, ext := range request.Extensions {
		if !ext.Id.Equal(subjectAltName) {
			return fmt.Errorf("it asks for the extension %s", ext.Id)
		}
	}
	return nil
}
