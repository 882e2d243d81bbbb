package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// OperatorTLSSecret is the Secret with the operator's certificate of a cluster with static certificates.
const OperatorTLSSecret = "etcd-client-tls" //nolint:gosec // it is the name of a Secret

// TLS is a change that says where certificates come from.
func TLS(policy map[string]any) func(*unstructured.Unstructured) error {
	return func(object *unstructured.Unstructured) error {
		return unstructured.SetNestedField(object.Object, policy, "spec", "TLS")
	}
}

// Put writes a Secret of the namespace, whether or not there is one.
func (e Etcd) Put(ctx context.Context, name string, data map[string][]byte) error {
	secret := coreac.Secret(name, e.Namespace).WithData(data)
	if err := e.Kube.WithWatch.Apply(ctx, secret, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying Secret %s: %w", name, err)
	}
	return nil
}

// staticOperator is the operator of a cluster with static certificates.
func (e Etcd) staticOperator(ctx context.Context) (*tls.Config, error) {
	secret := &corev1.Secret{}
	if err := e.Kube.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: OperatorTLSSecret}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", OperatorTLSSecret, err)
	}
	identity, err := tls.X509KeyPair(secret.Data["etcd-client.crt"], secret.Data["etcd-client.key"])
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", OperatorTLSSecret, err)
	}
	config, err := trusting(secret.Data["etcd-client-ca.crt"])
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{identity}
	return config, nil
}

// Presented is what a member presents to the operator in a new connection, verified.
func (e Etcd) Presented(ctx context.Context, member string) (leaf *x509.Certificate, err error) {
	config, err := e.Operator(ctx)
	if err != nil {
		return nil, err
	}
	dial, err := e.dialer(ctx, member, contract.ClientPort)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	config.ServerName, config.NextProtos = e.names().Host(member), []string{"h2"}
	secure := tls.Client(conn, config)
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("connecting to member %s: %w", member, err)
	}
	return secure.ConnectionState().PeerCertificates[0], nil
}

// Hosts are the DNS names by which members are known, with a wildcard for their names, and that of the Service.
func (e Etcd) Hosts() (members []string, service string) {
	names := model.Names{Namespace: e.Namespace, Cluster: e.Name, Mode: model.Static}
	host := names.Host("*")
	return []string{host, host + ".cluster.local"}, fmt.Sprintf("%s.%s.svc", names.ClientService(), e.Namespace)
}
