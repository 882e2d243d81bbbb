package model

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
)

// Reasons for which an answer of the outside PKI is not used.
const (
	PrivateKeyInAnswer     Reason = "PrivateKeyInAnswer"
	CertificateUnreadable  Reason = "CertificateUnreadable"
	KeyMismatch            Reason = "KeyMismatch"
	NotACA                 Reason = "NotACA"
	PathLengthTooShort     Reason = "PathLengthTooShort"
	SubjectMismatch        Reason = "SubjectMismatch"
	CertificateExpired     Reason = "CertificateExpired"
	CertificateNotYetValid Reason = "CertificateNotYetValid"
	WeakCertificate        Reason = "WeakCertificate"
	ChainIncomplete        Reason = "ChainIncomplete"
	ChainNotVerified       Reason = "ChainNotVerified"
	ExpiresTooSoon         Reason = "ExpiresTooSoon"
)

// maxCause bounds what is quoted from certificates of others.
const maxCause = 512

// Refusal is why a certificate of a CA of the operator is not used.
type Refusal struct {
	Reason Reason
	Cause  string
	// Until is when that is over without another certificate, zero when never.
	Until time.Time
}

// answer is a chain that an outside PKI has signed for a CA of the operator.
type answer struct {
	OperatorCA

	// chain is what verifiers need of it, the root last.
	chain []*x509.Certificate
	key   pki.PrivateKey
	// longest is the validity of a CA that it is to sign.
	longest time.Duration
	now     time.Time
}

// CheckAnswer reads the chain of a CA of the operator, and refuses one by which it could not sign the CA of a cluster
// that is valid for so long, or by which no verifier would accept that.
func (o OperatorCA) CheckAnswer(text []byte, key pki.PrivateKey, longest time.Duration, now time.Time) ([]*x509.Certificate, *Refusal) {
	if bytes.Contains(text, []byte("PRIVATE KEY")) {
		return nil, &Refusal{Reason: PrivateKeyInAnswer, Cause: "it holds a private key, which every reader of it has seen. Remove the key, and replace what it was used for"}
	}
	chain, err := pki.ParseChain(text)
	if err != nil {
		return nil, &Refusal{Reason: CertificateUnreadable, Cause: excerpt.Of(err.Error(), maxCause)}
	}
	a := answer{o, pathOf(chain, now), key, longest, now}
	for _, check := range []struct {
		reason Reason
		check  func() error
	}{
		{KeyMismatch, a.isForKey},
		{NotACA, func() error { return pki.CheckCA(chain[0]) }},
		{PathLengthTooShort, a.maySignCAs},
		{SubjectMismatch, a.hasSubject},
		{CertificateExpired, a.isNotOver},
		{CertificateNotYetValid, a.hasBegun},
		{WeakCertificate, a.isStrong},
		{ChainIncomplete, a.endsWithRoot},
		{ChainNotVerified, func() error { return pki.CheckCAChain(a.chain, now) }},
		{ChainNotVerified, a.carriesClusters},
		{ExpiresTooSoon, a.isLongEnough},
	} {
		if err := check.check(); err != nil {
			refusal := &Refusal{Reason: check.reason, Cause: excerpt.Of(err.Error(), maxCause)}
			if check.reason == CertificateNotYetValid {
				refusal.Until = a.begins()
			}
			return nil, refusal
		}
	}
	return chain, nil
}

func (a answer) isForKey() error {
	if a.key.Matches(a.chain[0]) {
		return nil
	}
	if slices.ContainsFunc(a.chain, a.key.Matches) {
		return errors.New("the certificate that answers the request is not the first of the chain")
	}
	return fmt.Errorf("certificate %q is for another key than that of the request", a.chain[0].Subject)
}

// maySignCAs asks for one CA below the operator's and no more: members trust that one, and see nothing above it.
func (a answer) maySignCAs() error {
	if pki.CanCrossSign(a.chain[0]) {
		return nil
	}
	return errors.New("its path length is 0, and it is to sign CAs of clusters. It needs 1 or more, or none")
}

func (a answer) hasSubject() error {
	if pki.HasSubject(a.chain[0], a.subject()) {
		return nil
	}
	return fmt.Errorf("its subject is %q, and that of the request %q", a.chain[0].Subject, a.subject())
}

// pathOf is what verifiers that trust the root need of a chain: from its first certificate up to the first valid root. A chain
// without such a path is needed as a whole, so that the certificate that breaks it is named.
func pathOf(chain []*x509.Certificate, now time.Time) []*x509.Certificate {
	if pki.CheckChainOrder(chain) != nil {
		return chain
	}
	needed, _ := pki.Needed(chain, now)
	if root := slices.IndexFunc(needed, isRoot); root > 0 {
		return needed[:root+1]
	}
	return chain
}

func isRoot(cert *x509.Certificate) bool { return bytes.Equal(cert.RawIssuer, cert.RawSubject) }

// ends is when the first certificate of the chain expires.
func (a answer) ends() time.Time { return pki.EarliestEnd(a.chain) }

// begins is when the last certificate of the chain becomes valid.
func (a answer) begins() time.Time {
	begin := a.chain[0].NotBefore
	for _, cert := range a.chain {
		if cert.NotBefore.After(begin) {
			begin = cert.NotBefore
		}
	}
	return begin
}

func (a answer) isNotOver() error {
	for _, cert := range a.chain {
		if a.now.After(cert.NotAfter) {
			return pki.CheckValidAt(cert, a.now)
		}
	}
	return nil
}

func (a answer) hasBegun() error {
	if !a.now.Before(a.begins()) {
		return nil
	}
	return fmt.Errorf("it is not valid before %s", stamp(a.begins()))
}

// isStrong leaves the signature of the root alone: those who trust it do not verify it.
func (a answer) isStrong() error {
	for i, cert := range a.chain {
		if isShort(cert.PublicKey) {
			return fmt.Errorf("the key of certificate %q is too short. RSA keys need 2048 bits, ECDSA keys 256", cert.Subject)
		}
		if name := cert.SignatureAlgorithm.String(); i < len(a.chain)-1 && (strings.Contains(name, "SHA1") || strings.Contains(name, "MD")) {
			return fmt.Errorf("certificate %q is signed with %s. Use SHA-256 or better", cert.Subject, name)
		}
	}
	return nil
}

func isShort(public crypto.PublicKey) bool {
	const rsaBits, ecdsaBits = 2048, 256
	switch key := public.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() < rsaBits
	case *ecdsa.PublicKey:
		return key.Params().BitSize < ecdsaBits
	default:
		return false
	}
}

func (a answer) endsWithRoot() error {
	last := a.chain[len(a.chain)-1]
	switch {
	case !isRoot(last):
		return fmt.Errorf("the chain ends with %q, which is no root. Add the certificates above it", last.Subject)
	case len(a.chain) == 1:
		return errors.New("it is signed by its own key, and not by another CA")
	default:
		return nil
	}
}

// carriesClusters signs the CA of a cluster and a certificate of a member for a moment, and verifies them up to the root.
func (a answer) carriesClusters() error {
	probe := Cluster{
		Names:    Names{Namespace: a.Namespace, Cluster: "my-cluster"},
		TLS:      TLS{CAValidity: map[contract.Plane]time.Duration{a.Plane: time.Hour}},
		settings: Settings{ClusterDomain: "cluster.local"},
	}
	parent, err := pki.NewAuthority(a.chain[0], a.key)
	if err != nil {
		return err
	}
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		return err
	}
	ca, err := pki.SignCA(parent, key, probe.caSpec(a.Plane, a.now))
	if err != nil {
		return err
	}
	chain := append([]*x509.Certificate{ca.Certificate()}, a.chain...)
	if err := pki.CheckIssuer(chain, pki.BothUsages()...); err != nil {
		return err
	}
	member := probe.Names.Member(0)
	names, err := probe.SANs(a.Plane, member, nil)
	if err != nil {
		return err
	}
	spec := pki.LeafSpec{
		Subject: pki.Subject{CommonName: member}, SANs: names, Usages: pki.BothUsages(), Validity: time.Hour, Now: a.now,
	}
	last := len(chain) - 1
	return ca.TryIssue(spec, chain[:last], chain[last])
}

func (a answer) isLongEnough() error {
	if !a.ends().Before(a.now.Add(a.longest).Truncate(time.Second)) {
		return nil
	}
	return fmt.Errorf("it expires at %s, and a CA of a cluster that is valid for %s would expire later. Have it signed for longer, or shorten the validity of that CA", stamp(a.ends()), hours(a.longest))
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// hours is a duration as fields of an EtcdCluster have it.
func hours(duration time.Duration) string {
	text := duration.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
