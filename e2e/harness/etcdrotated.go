package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/pki"
)

// CAs are those of a cluster, by plane, which sign.
func (e Etcd) CAs(ctx context.Context) (map[contract.Plane]pki.Authority, error) {
	cas := map[contract.Plane]pki.Authority{}
	for _, plane := range contract.Planes() {
		ca, err := e.CA(ctx, plane)
		if err != nil {
			return nil, err
		}
		cas[plane] = ca
	}
	return cas, nil
}

// ReplaceCAs asks for another key of each CA.
func (e Etcd) ReplaceCAs(ctx context.Context) error {
	return errors.Join(
		e.annotateCA(ctx, contract.PeerPlane, domains.ForceReplaceAnnotation, "true"),
		e.annotateCA(ctx, contract.ClientPlane, domains.ForceReplaceAnnotation, "true"),
	)
}

// ClientsMoved says that all applications have taken over what was issued to them until now.
func (e Etcd) ClientsMoved(ctx context.Context) error {
	return e.annotateCA(ctx, contract.ClientPlane, domains.ClientsMovedAnnotation, time.Now().UTC().Format(time.RFC3339))
}

func (e Etcd) annotateCA(ctx context.Context, plane contract.Plane, annotation, value string) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = OperatorNamespace, e.names().CAKeySecret(plane)
	return e.Kube.Annotate(ctx, secret, map[string]string{annotation: value})
}

// UntilTrustedAlone waits until the members report that etcd has loaded one CA in each plane, and another one than before.
func (e Etcd) UntilTrustedAlone(ctx context.Context, before map[contract.Plane]pki.Authority) error {
	return e.UntilStatus(ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
		for i := range status.MemberStatuses {
			loaded := status.MemberStatuses[i].Loaded
			isAlone := func(plane etcdv1beta2.LoadedPlane) bool {
				former := pki.FingerprintOf(before[contract.Plane(plane.Plane)].Certificate()).String()
				return len(plane.Trusts) == 1 && plane.Trusts[0] != former
			}
			if len(loaded) != len(contract.Planes()) || slices.ContainsFunc(loaded, func(plane etcdv1beta2.LoadedPlane) bool { return !isAlone(plane) }) {
				return false
			}
		}
		return len(status.MemberStatuses) > 0 && IsReady(status)
	})
}

var errNoCredentials = errors.New("it has no CA")

// Application is how an application connects that reads the Secret of its EtcdAccess anew for each connection.
func (e Etcd) Application(ctx context.Context, access types.NamespacedName) *tls.Config {
	read := func() (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		if err := e.Kube.Get(ctx, access, secret); err != nil {
			return nil, fmt.Errorf("reading the Secret of EtcdAccess %s: %w", access, err)
		}
		return secret, nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies, by what the Secret has now
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			secret, err := read()
			if err != nil {
				return nil, err
			}
			certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
			return &certificate, err
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			secret, err := read()
			if err != nil {
				return err
			}
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
				return fmt.Errorf("verifying a member by Secret %s: %w", access, errNoCredentials)
			}
			for _, above := range state.PeerCertificates[1:] {
				between.AddCert(above)
			}
			_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: state.ServerName, Roots: roots, Intermediates: between})
			return err
		},
	}
}
