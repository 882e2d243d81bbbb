package target

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
)

const (
	mintedValidity = 24 * time.Hour
	mintedRenewal  = time.Hour
)

// Mint makes a client certificate for a common name, signed by the cluster's
// clients CA. It needs the right to read that CA's key.
func (t *Target) Mint(ctx context.Context, commonName string, now time.Time) (probe.Credential, error) {
	authority, err := t.clientsCA(ctx)
	if err != nil {
		return nil, err
	}
	outcome, err := ownca.New(authority).Issue(ctx, issuer.Request{
		Name:     commonName,
		Subject:  pki.Subject{CommonName: commonName},
		Usages:   []pki.Usage{pki.ClientAuth},
		Validity: mintedValidity,
		Renewal:  mintedRenewal,
		Key:      issuer.NewKey{Params: pki.DefaultLeafKey(pki.ECDSA)},
		Now:      now,
	})
	if err != nil {
		return nil, fmt.Errorf("minting certificate of %s: %w", commonName, err)
	}
	switch outcome := outcome.(type) {
	case issuer.Issued:
		return credential(outcome), nil
	case issuer.Denied:
		return nil, fmt.Errorf("minting certificate of %s: %s", commonName, outcome.Why)
	case issuer.Pending:
		return nil, fmt.Errorf("minting certificate of %s is not done: %s", commonName, outcome.Why)
	default:
		return nil, fmt.Errorf("minting certificate of %s: unknown outcome %T", commonName, outcome)
	}
}

func credential(issued issuer.Issued) probe.Credential {
	certificate := &tls.Certificate{PrivateKey: issued.Key.Signer(), Leaf: issued.Chain[0]}
	for _, link := range issued.Chain {
		certificate.Certificate = append(certificate.Certificate, link.Raw)
	}
	return func(context.Context) (*tls.Certificate, error) { return certificate, nil }
}

func (t *Target) clientsCA(ctx context.Context) (pki.Authority, error) {
	certificate, err := t.read(ctx, t.names.Cluster+"-clients-ca-cert", "ca.crt")
	if err != nil {
		return pki.Authority{}, err
	}
	private, err := t.read(ctx, t.names.Cluster+"-clients-ca", "ca.key")
	if err != nil {
		return pki.Authority{}, err
	}
	issuing, err := pki.FirstCertificate(certificate)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("reading clients CA: %w", err)
	}
	key, err := pki.ParsePrivateKey(private)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("reading key of clients CA: %w", err)
	}
	authority, err := pki.NewAuthority(issuing, key)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("reading clients CA: %w", err)
	}
	return authority, nil
}

// read reads one key of a Secret, once: a CA's key is not to be kept.
func (t *Target) read(ctx context.Context, name, key string) ([]byte, error) {
	secret, err := t.client.CoreV1().Secrets(t.names.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s in namespace %s: %w", name, t.names.Namespace, err)
	}
	value, ok := secret.Data[key]
	if !ok {
		return nil, fmt.Errorf("reading Secret %s in namespace %s: it has no key %s", name, t.names.Namespace, key)
	}
	return value, nil
}
