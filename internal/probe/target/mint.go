package target

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
)

const (
	mintedValidity = 24 * time.Hour
	mintedRenewal  = time.Hour
	// mintPause is the least time between two attempts to mint a certificate again.
	mintPause = time.Second
)

// Mint makes a client certificate for a common name, signed by what signs for the
// cluster's clients CA now, and keeps it. It needs the right to read that CA's key.
func (t *Target) Mint(ctx context.Context, commonName string, now time.Time) (probe.Credential, error) {
	certificate, err := t.mint(ctx, commonName, now)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (*tls.Certificate, error) { return certificate, nil }, nil
}

// Remint is Mint that mints again whenever the clients CA changes, as a user does
// whose certificate is reissued. While nothing can be minted (the key is lost,
// or belongs to no certificate), it presents what it has. Besides the rights of
// Mint it needs to list and watch the Secret of the key, of which it is told no
// more than that it changed.
func (t *Target) Remint(ctx context.Context, commonName string, by clock.PassiveClock) (probe.Credential, error) {
	version, err := t.clientsCAVersion()
	if err != nil {
		return nil, err
	}
	m := &minter{
		clock: by, version: version,
		mint: func(ctx context.Context) (*tls.Certificate, error) { return t.mint(ctx, commonName, by.Now()) },
	}
	if _, err := m.present(ctx); err != nil {
		return nil, err
	}
	return m.present, nil
}

// minter presents a certificate of the authority as it is now.
type minter struct {
	clock   clock.PassiveClock
	version func() string
	mint    func(context.Context) (*tls.Certificate, error)

	mu      sync.Mutex
	current *tls.Certificate
	minted  string // the version that current is of
	tried   time.Time
}

func (m *minter) present(ctx context.Context) (*tls.Certificate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	version := m.version()
	if m.current != nil && (version == m.minted || m.clock.Since(m.tried) < mintPause) {
		return m.current, nil
	}
	m.tried = m.clock.Now()
	fresh, err := m.mint(ctx)
	if err == nil {
		m.current, m.minted = fresh, version
	}
	if m.current == nil {
		return nil, err
	}
	return m.current, nil
}

// clientsCAVersion changes with either Secret of the clients CA.
func (t *Target) clientsCAVersion() (func() string, error) {
	var versions []func() string
	for _, name := range []string{t.keySecret(), t.certSecret()} {
		version, err := t.watchVersion(name)
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
	}
	return func() string { return versions[0]() + " " + versions[1]() }, nil
}

func (t *Target) mint(ctx context.Context, commonName string, now time.Time) (*tls.Certificate, error) {
	authority, err := t.clientsCA(ctx, now)
	if err != nil {
		return nil, err
	}
	outcome, err := ownca.New(authority).Issue(ctx, issuer.Request{
		Name:     commonName,
		Subject:  pki.Subject{CommonName: commonName},
		Usages:   []pki.Usage{pki.ClientAuth},
		Validity: mintedValidity,
		Renewal:  mintedRenewal,
		Key:      pki.DefaultLeafKey(pki.ECDSA),
		Now:      now,
	})
	if err != nil {
		return nil, fmt.Errorf("minting certificate of %s: %w", commonName, err)
	}
	switch outcome := outcome.(type) {
	case issuer.Issued:
		return certificateOf(outcome), nil
	case issuer.Denied:
		return nil, fmt.Errorf("minting certificate of %s: %s", commonName, outcome.Why)
	case issuer.Pending:
		return nil, fmt.Errorf("minting certificate of %s is not done: %s", commonName, outcome.Why)
	default:
		return nil, fmt.Errorf("minting certificate of %s: unknown outcome %T", commonName, outcome)
	}
}

func certificateOf(issued issuer.Issued) *tls.Certificate {
	certificate := &tls.Certificate{PrivateKey: issued.Key.Signer(), Leaf: issued.Chain[0]}
	for _, link := range issued.Chain {
		certificate.Certificate = append(certificate.Certificate, link.Raw)
	}
	return certificate
}

func (t *Target) keySecret() string  { return authorities.Clients.KeySecret(t.names.Cluster) }
func (t *Target) certSecret() string { return authorities.Clients.CertSecret(t.names.Cluster) }

// clientsCA is what signs now: ca.key, and the entry of ca.crt that it belongs to.
func (t *Target) clientsCA(ctx context.Context, now time.Time) (pki.Authority, error) {
	bundle, err := t.read(ctx, t.certSecret(), "ca.crt")
	if err != nil {
		return pki.Authority{}, err
	}
	data, err := t.readAll(ctx, t.keySecret())
	if err != nil {
		return pki.Authority{}, err
	}
	signer, err := authority.Signer(bundle, data, now)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("reading clients CA: %w", err)
	}
	return signer, nil
}

// read reads one key of a Secret, once.
func (t *Target) read(ctx context.Context, name, key string) ([]byte, error) {
	data, err := t.readAll(ctx, name)
	if err != nil {
		return nil, err
	}
	value, ok := data[key]
	if !ok {
		return nil, fmt.Errorf("reading Secret %s in namespace %s: it has no key %s", name, t.names.Namespace, key)
	}
	return value, nil
}

// readAll reads a Secret, once: a CA's key is not to be kept.
func (t *Target) readAll(ctx context.Context, name string) (map[string][]byte, error) {
	secret, err := t.client.CoreV1().Secrets(t.names.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s in namespace %s: %w", name, t.names.Namespace, err)
	}
	return secret.Data, nil
}
