package members

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// caEntry is the entry of the Secret with the CA certificates.
const caEntry = "ca.crt"

var errNoCA = errors.New("its Secret has no CA certificate")

// Application is how an application connects that reads the Secret of its EtcdAccess for each connection.
func Application(read func() (*corev1.Secret, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies, by what the Secret has now
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			secret, err := read()
			if err != nil {
				return nil, err
			}
			certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
			if err != nil {
				return nil, fmt.Errorf("reading the certificate of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
			}
			return &certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			secret, err := read()
			if err != nil {
				return err
			}
			return verify(state, secret)
		},
	}
}

// verify holds that a member presents a certificate of a CA in the Secret, for its name.
func verify(state tls.ConnectionState, secret *corev1.Secret) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[caEntry]) {
		return fmt.Errorf("verifying %s by Secret %s/%s: %w", state.ServerName, secret.Namespace, secret.Name, errNoCA)
	}
	for _, above := range state.PeerCertificates[1:] {
		between.AddCert(above)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: state.ServerName, Roots: roots, Intermediates: between})
	return err
}
