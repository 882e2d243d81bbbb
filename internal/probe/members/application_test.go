package members_test

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/members"
)

const host = "my-cluster-0.example.com"

func newCA(t *testing.T, name string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: time.Hour, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// leaf is a certificate of a CA with its key, both in PEM.
func leaf(t *testing.T, ca pki.Authority) (chain, key []byte) {
	t.Helper()
	private, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	sans, err := pki.NewSANs(host)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.Issue(private.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "member"}, SANs: sans, Usages: pki.BothUsages(), Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeBundle(issued), private.PEM()
}

func secretOf(t *testing.T, ca, trusted pki.Authority) *corev1.Secret {
	t.Helper()
	chain, key := leaf(t, ca)
	return &corev1.Secret{Data: map[string][]byte{"tls.crt": chain, "tls.key": key, "ca.crt": pki.EncodeBundle(trusted.Certificate())}}
}

// handshake is what a client with the configuration meets at a member that presents a certificate of a CA, and accepts any.
func handshake(t *testing.T, ca pki.Authority, client *tls.Config, name string) error {
	t.Helper()
	chain, key := leaf(t, ca)
	certificate, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	go func() {
		server := tls.Server(far, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert})
		_ = server.HandshakeContext(t.Context()) // the client says how it went
		_ = far.Close()
	}()
	client = client.Clone()
	client.ServerName = name
	return tls.Client(near, client).HandshakeContext(t.Context())
}

func TestAnApplicationTrustsWhatItsSecretHasAtEachConnection(t *testing.T) {
	t.Parallel()
	before, after := newCA(t, "before"), newCA(t, "after")
	var secret *corev1.Secret
	var unread error
	application := members.Application(func() (*corev1.Secret, error) { return secret, unread })

	secret = secretOf(t, before, before)
	if err := handshake(t, before, application, host); err != nil {
		t.Errorf("a member of the CA is not accepted: %v", err)
	}
	if err := handshake(t, after, application, host); err == nil {
		t.Error("a member of another CA is accepted")
	}
	if err := handshake(t, before, application, "other.example.com"); err == nil {
		t.Error("a member with another name is accepted")
	}
	secret = secretOf(t, after, after)
	if err := handshake(t, after, application, host); err != nil {
		t.Errorf("a member of the CA that the Secret has now is not accepted: %v", err)
	}
	secret.Data["ca.crt"] = nil
	if err := handshake(t, after, application, host); err == nil {
		t.Error("a member is accepted without any CA")
	}
	unread = errors.ErrUnsupported
	if err := handshake(t, after, application, host); !errors.Is(err, unread) {
		t.Errorf("error %v, want that of reading the Secret", err)
	}
}
