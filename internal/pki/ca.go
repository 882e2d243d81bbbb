package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha1"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Backdate is how far before the time of issue a certificate starts, so that a
// peer whose clock is behind accepts it at once.
const Backdate = 15 * time.Minute

// Authority is a CA certificate, its key, and what those who present a leaf of
// it present besides. It is made by NewAuthority and the functions below; the
// zero value can do nothing.
type Authority struct {
	cert     *x509.Certificate
	key      PrivateKey
	presents []*x509.Certificate
}

// NewAuthority puts a certificate and its key together. The presented
// certificates follow each leaf in the order given: intermediates up to, but
// without, the root, or a cross certificate.
func NewAuthority(cert *x509.Certificate, key PrivateKey, presents ...*x509.Certificate) (Authority, error) {
	if err := CheckCA(cert); err != nil {
		return Authority{}, err
	}
	if !key.Matches(cert) {
		return Authority{}, fmt.Errorf("the key does not belong to the CA certificate %q", cert.Subject)
	}
	return Authority{cert: cert, key: key, presents: slices.Clone(presents)}, nil
}

// CheckCA refuses a certificate that cannot sign others: no CA, or a key usage
// without certificate signing.
func CheckCA(cert *x509.Certificate) error {
	if !cert.BasicConstraintsValid || !cert.IsCA {
		return fmt.Errorf("certificate %q is not a CA certificate", cert.Subject)
	}
	if cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return fmt.Errorf("certificate %q may not sign certificates: its key usage does not say so", cert.Subject)
	}
	return nil
}

// IsZero tells whether a was never made.
func (a Authority) IsZero() bool { return a.cert == nil }

// Certificate is the certificate that issues leaves, and the anchor that those
// who verify them trust. It is nil for the zero value.
func (a Authority) Certificate() *x509.Certificate { return a.cert }

// Key is the key of Certificate.
func (a Authority) Key() PrivateKey { return a.key }

// Presents returns what follows a leaf when it is presented.
func (a Authority) Presents() []*x509.Certificate { return slices.Clone(a.presents) }

// CASpec describes a CA.
type CASpec struct {
	Subject  Subject
	Key      KeyParams
	Validity time.Duration
	Now      time.Time
	// PermittedDNS are the domains in which leaves may have DNS names; empty means all.
	// Addresses are not limited.
	PermittedDNS []string
}

// MaxCrosses is how many cross certificates may be between a leaf and an authority. An authority may have
// as many successors while a peer still trusts it alone. The JDK looks no further than five.
const MaxCrosses = 4

// NewCA makes a key and a self-signed certificate for it: path length MaxCrosses, so
// that it can later sign its successor's key, and that one the next; valid from Now
// minus Backdate until Now plus Validity.
func NewCA(spec CASpec) (Authority, error) {
	key, err := GenerateKey(spec.Key)
	if err != nil {
		return Authority{}, err
	}
	return SelfSign(key, spec)
}

// SelfSign is NewCA for a key that exists; spec.Key is not looked at.
func SelfSign(key PrivateKey, spec CASpec) (Authority, error) {
	tmpl, err := spec.template(key)
	if err != nil {
		return Authority{}, err
	}
	return selfSigned(key, tmpl)
}

// SignCA is SelfSign below a parent. The certificate is not valid before the parent's, nor
// after it. Nothing is presented beside its leaves: it is meant to be an anchor.
func SignCA(parent Authority, key PrivateKey, spec CASpec) (Authority, error) {
	tmpl, err := spec.template(key)
	if err != nil {
		return Authority{}, err
	}
	return signBelow(parent, key, tmpl, spec.Now)
}

// signBelow has a parent sign what would sign itself otherwise.
func signBelow(parent Authority, key PrivateKey, tmpl *x509.Certificate, now time.Time) (Authority, error) {
	if parent.IsZero() {
		return Authority{}, fmt.Errorf("signing CA %q: no authority", tmpl.Subject)
	}
	if !CanCrossSign(parent.cert) {
		return Authority{}, fmt.Errorf("signing CA %q: CA %q has path length 0 and cannot sign another CA", tmpl.Subject, parent.cert.Subject)
	}
	if err := CheckValidAt(parent.cert, now); err != nil {
		return Authority{}, fmt.Errorf("signing CA %q: %w", tmpl.Subject, err)
	}
	tmpl.NotBefore = latest(tmpl.NotBefore, parent.cert.NotBefore)
	tmpl.NotAfter = earliest(tmpl.NotAfter, parent.cert.NotAfter)
	tmpl.AuthorityKeyId = parent.cert.SubjectKeyId
	cert, err := create(tmpl, parent.cert, key.Signer().Public(), parent.key)
	if err != nil {
		return Authority{}, err
	}
	return NewAuthority(cert, key)
}

func (s CASpec) template(key PrivateKey) (*x509.Certificate, error) {
	tmpl, err := caTemplate(s.Now, s.Validity, MaxCrosses)
	if err != nil {
		return nil, err
	}
	tmpl.Subject = s.Subject.name()
	tmpl.SubjectKeyId = subjectKeyID(key)
	tmpl.PermittedDNSDomains = s.PermittedDNS
	tmpl.PermittedDNSDomainsCritical = len(s.PermittedDNS) > 0
	return tmpl, nil
}

// RenewCA signs the same key and the same subject, byte by byte, for a new
// period, with the names that leaves may have as before. Everything that verified under
// the old certificate verifies under the new one and the other way round.
func RenewCA(old *x509.Certificate, key PrivateKey, validity time.Duration, now time.Time) (Authority, error) {
	tmpl, err := renewal(old, key, validity, now)
	if err != nil {
		return Authority{}, err
	}
	return selfSigned(key, tmpl)
}

// RenewCABelow is RenewCA of a certificate that a parent has signed, as SignCA is of SelfSign.
func RenewCABelow(parent Authority, old *x509.Certificate, key PrivateKey, validity time.Duration, now time.Time) (Authority, error) {
	tmpl, err := renewal(old, key, validity, now)
	if err != nil {
		return Authority{}, err
	}
	return signBelow(parent, key, tmpl, now)
}

func renewal(old *x509.Certificate, key PrivateKey, validity time.Duration, now time.Time) (*x509.Certificate, error) {
	if !key.Matches(old) {
		return nil, fmt.Errorf("renewing CA %q: the key does not belong to the certificate", old.Subject)
	}
	tmpl, err := caTemplate(now, validity, MaxCrosses)
	if err != nil {
		return nil, err
	}
	tmpl.Subject, tmpl.RawSubject = old.Subject, old.RawSubject
	tmpl.SubjectKeyId = old.SubjectKeyId
	if len(tmpl.SubjectKeyId) == 0 {
		tmpl.SubjectKeyId = subjectKeyID(key)
	}
	permitAs(tmpl, old)
	return tmpl, nil
}

// permitAs lets leaves have the DNS names that they may have below another certificate of the same authority.
func permitAs(tmpl, other *x509.Certificate) {
	tmpl.PermittedDNSDomains = other.PermittedDNSDomains
	tmpl.PermittedDNSDomainsCritical = len(other.PermittedDNSDomains) > 0 && other.PermittedDNSDomainsCritical
}

// CanCrossSign tells whether a CA may sign another CA: a path length of 0 forbids
// it.
func CanCrossSign(cert *x509.Certificate) bool { return Carries(cert, 1) }

// Carries tells whether so many other CA certificates may stand between a CA
// certificate and a leaf.
func Carries(cert *x509.Certificate, others int) bool {
	return cert.MaxPathLen < 0 || others <= cert.MaxPathLen // less than 0 is no limit
}

// CrossSign makes the certificate by which those who trust only the outgoing
// authority verify leaves of the incoming one: subject, key and permitted DNS names
// of incoming, issuer outgoing, a path length of one less than the issuer's, and not
// longer valid than either of them.
func CrossSign(outgoing Authority, incoming *x509.Certificate, now time.Time) (*x509.Certificate, error) {
	if outgoing.IsZero() {
		return nil, errors.New("cross-signing: no outgoing authority")
	}
	if err := CheckCA(incoming); err != nil {
		return nil, fmt.Errorf("cross-signing: %w", err)
	}
	if bytes.Equal(outgoing.cert.RawSubject, incoming.RawSubject) && outgoing.key.Matches(incoming) {
		return nil, fmt.Errorf("cross-signing: CA %q would sign its own name and key, which the JVM refuses", outgoing.cert.Subject)
	}
	if !CanCrossSign(outgoing.cert) {
		return nil, fmt.Errorf("cross-signing: CA %q has path length 0 and cannot sign another CA", outgoing.cert.Subject)
	}
	end := outgoing.cert.NotAfter
	if incoming.NotAfter.Before(end) {
		end = incoming.NotAfter
	}
	carries := MaxCrosses - 1
	if own := outgoing.cert.MaxPathLen; own > 0 {
		carries = min(carries, own-1)
	}
	tmpl, err := caTemplate(now, end.Sub(now), carries)
	if err != nil {
		return nil, fmt.Errorf("cross-signing by %q: %w", outgoing.cert.Subject, err)
	}
	tmpl.NotAfter = end
	tmpl.RawSubject = incoming.RawSubject
	tmpl.SubjectKeyId = incoming.SubjectKeyId
	tmpl.AuthorityKeyId = outgoing.cert.SubjectKeyId
	permitAs(tmpl, incoming)
	return create(tmpl, outgoing.cert, incoming.PublicKey, outgoing.key)
}

func caTemplate(now time.Time, validity time.Duration, pathLen int) (*x509.Certificate, error) {
	if validity <= 0 {
		return nil, fmt.Errorf("a CA certificate cannot be valid for %s", validity)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-Backdate).UTC(),
		NotAfter:              now.Add(validity).UTC(),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            pathLen,
		MaxPathLenZero:        pathLen == 0,
	}, nil
}

func selfSigned(key PrivateKey, tmpl *x509.Certificate) (Authority, error) {
	cert, err := create(tmpl, tmpl, key.Signer().Public(), key)
	if err != nil {
		return Authority{}, err
	}
	return NewAuthority(cert, key)
}

// create signs and reads back: what is returned is what others will parse.
func create(tmpl, parent *x509.Certificate, public crypto.PublicKey, key PrivateKey) (*x509.Certificate, error) {
	tmpl.SignatureAlgorithm = signatureFor(key.Params())
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, public, key.Signer())
	if err != nil {
		return nil, fmt.Errorf("signing certificate %q: %w", tmpl.Subject, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back certificate %q: %w", tmpl.Subject, err)
	}
	return cert, nil
}

func signatureFor(p KeyParams) x509.SignatureAlgorithm {
	switch {
	case p.Algorithm == RSA:
		return x509.SHA512WithRSA
	case p.Size <= 256:
		return x509.ECDSAWithSHA256
	case p.Size <= 384:
		return x509.ECDSAWithSHA384
	default:
		return x509.ECDSAWithSHA512
	}
}

// newSerial returns 20 random bytes, the first bit clear and the number positive
// as RFC 5280 §4.1.2.2 asks.
func newSerial() (*big.Int, error) {
	raw := make([]byte, 20)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw), nil
}

// subjectKeyID is method 1 of RFC 5280 §4.2.1.2: the SHA-1 of the bits of the
// public key, as OpenSSL makes it. It only helps verifiers to find an issuer.
func subjectKeyID(key PrivateKey) []byte {
	sum := sha1.Sum(publicBits(key.material().spki))
	return bytes.Clone(sum[:])
}
