package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// bedEtcd is the repository of the bed's images of etcd.
const bedEtcd = "keyturn.dev/etcd"

// Etcd is one etcd cluster.
type Etcd struct {
	Kube      *Kubernetes
	Namespace string
	Name      string
	// Mode is where its certificates come from.
	Mode model.Mode
}

func (e Etcd) names() model.Names {
	return model.Names{Namespace: e.Namespace, Cluster: e.Name, Mode: e.Mode}
}

// etcdExample is the EtcdCluster that people start with.
const etcdExample = "etcd/cluster.yaml"

// Create applies the example with the name and the size, on the bed with its image, and
// with what else is changed.
func (e Etcd) Create(ctx context.Context, size int32, changes ...func(*unstructured.Unstructured) error) error {
	manifest, err := e.Kube.Example(etcdExample)
	if err != nil {
		return err
	}
	bed, err := e.Kube.OnBed(ctx)
	if err != nil {
		return err
	}
	for _, object := range manifest {
		object.SetName(e.Name)
		err := unstructured.SetNestedField(object.Object, int64(size), "spec", "size")
		if err == nil && bed {
			err = unstructured.SetNestedField(object.Object, bedEtcd, "spec", "repository")
		}
		for _, change := range changes {
			err = errors.Join(err, change(object))
		}
		if err != nil {
			return fmt.Errorf("changing the example of an EtcdCluster: %w", err)
		}
	}
	return e.Kube.Apply(ctx, e.Namespace, manifest)
}

// Resource reads the EtcdCluster.
func (e Etcd) Resource(ctx context.Context) (*etcdv1beta2.EtcdCluster, error) {
	resource := &etcdv1beta2.EtcdCluster{}
	if err := e.Kube.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, resource); err != nil {
		return nil, fmt.Errorf("reading EtcdCluster %s: %w", e.Name, err)
	}
	return resource, nil
}

// LeafValidity is a change that limits the life of members' certificates.
func LeafValidity(validity time.Duration) func(*unstructured.Unstructured) error {
	return func(object *unstructured.Unstructured) error {
		return unstructured.SetNestedField(object.Object, validity.String(), "spec", "TLS", "dynamic", "leaf", "validity")
	}
}

// UntilReady waits until the cluster is available and as its present specification wants
// it. The error tells the last conditions seen.
func (e Etcd) UntilReady(ctx context.Context) error {
	var last []metav1.Condition
	err := e.Kube.Follow(ctx, &etcdv1beta2.EtcdClusterList{}, func(objects Objects) (bool, error) {
		resource, found := objects[e.Name].(*etcdv1beta2.EtcdCluster)
		if !found {
			return false, nil
		}
		last = resource.Status.Conditions
		return resource.Status.ObservedGeneration == resource.Generation &&
			meta.IsStatusConditionTrue(last, etcdv1beta2.ConditionReady) &&
			meta.IsStatusConditionTrue(last, etcdv1beta2.ConditionAvailable), nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return fmt.Errorf("waiting until EtcdCluster %s is ready: %w; its conditions are %+v", e.Name, err, last)
	}
	return nil
}

// UntilWaitingForSigner waits until the cluster says that it waits for an outside PKI.
func (e Etcd) UntilWaitingForSigner(ctx context.Context) error {
	err := e.Kube.Follow(ctx, &etcdv1beta2.EtcdClusterList{}, func(objects Objects) (bool, error) {
		resource, found := objects[e.Name].(*etcdv1beta2.EtcdCluster)
		if !found {
			return false, nil
		}
		waits := meta.FindStatusCondition(resource.Status.Conditions, etcdv1beta2.ConditionPKIReady)
		return waits != nil && waits.Status == metav1.ConditionFalse && waits.Reason == string(model.WaitingForSigner), nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return fmt.Errorf("waiting until EtcdCluster %s waits for a signer: %w", e.Name, err)
	}
	return nil
}

// Delete deletes the cluster, and waits until it is gone.
func (e Etcd) Delete(ctx context.Context) error {
	cluster := &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}
	if err := client.IgnoreNotFound(e.Kube.Delete(ctx, cluster)); err != nil {
		return fmt.Errorf("deleting EtcdCluster %s: %w", e.Name, err)
	}
	err := e.Kube.Follow(ctx, &etcdv1beta2.EtcdClusterList{}, func(left Objects) (bool, error) {
		_, found := left[e.Name]
		return !found, nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return fmt.Errorf("waiting until EtcdCluster %s is gone: %w", e.Name, err)
	}
	return nil
}

// Private are the Secrets of the cluster in the operator's namespace, sorted by name.
func (e Etcd) Private(ctx context.Context) ([]string, error) {
	secrets := &corev1.SecretList{}
	err := e.Kube.List(ctx, secrets, client.InNamespace(OperatorNamespace),
		client.MatchingLabels{model.ClusterLabel: e.Name, model.NamespaceLabel: e.Namespace})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of EtcdCluster %s: %w", e.Name, err)
	}
	names := make([]string, 0, len(secrets.Items))
	for i := range secrets.Items {
		names = append(names, secrets.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

// CA reads the CA of a plane with its key.
func (e Etcd) CA(ctx context.Context, plane contract.Plane) (pki.Authority, error) {
	return e.authority(ctx, e.names().CAKeySecret(plane), e.names().CACertSecret(plane))
}

// OperatorCA reads the operator's CA of a plane, which has signed those of all clusters.
func (e Etcd) OperatorCA(ctx context.Context, plane contract.Plane) (pki.Authority, error) {
	own := model.OperatorCA{Namespace: OperatorNamespace, Plane: plane}
	return e.authority(ctx, own.KeySecret(), own.CertSecret())
}

func (e Etcd) authority(ctx context.Context, keySecret, certSecret string) (pki.Authority, error) {
	key, cert := &corev1.Secret{}, &corev1.Secret{}
	if err := errors.Join(
		e.Kube.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: keySecret}, key),
		e.Kube.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: certSecret}, cert),
	); err != nil {
		return pki.Authority{}, fmt.Errorf("reading the CA of Secret %s: %w", certSecret, err)
	}
	return authority.Signer(cert.Data[authority.CertKey], key.Data, time.Now())
}

// Operator is how the operator proves itself to the cluster, and recognises it; nil without TLS.
func (e Etcd) Operator(ctx context.Context) (*tls.Config, error) {
	switch e.Mode {
	case model.Insecure:
		return nil, nil //nolint:nilnil // there is nothing to prove
	case model.Static:
		return e.staticOperator(ctx)
	case model.Dynamic:
	}
	secret := &corev1.Secret{}
	if err := e.Kube.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: e.names().OperatorSecret()}, secret); err != nil {
		return nil, fmt.Errorf("reading the operator's certificate for EtcdCluster %s: %w", e.Name, err)
	}
	identity, err := tls.X509KeyPair(secret.Data[model.OperatorCertEntry], secret.Data[model.OperatorKeyEntry])
	if err != nil {
		return nil, fmt.Errorf("reading the operator's certificate for EtcdCluster %s: %w", e.Name, err)
	}
	config, err := trusting(secret.Data[model.OperatorAnchorsEntry])
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{identity}
	return config, nil
}

var errNoAnchors = errors.New("there are no CA certificates")

func trusting(bundle []byte) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, errNoAnchors
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// Client connects to one member as the configuration says.
func (e Etcd) Client(ctx context.Context, member string, config *tls.Config) (*clientv3.Client, error) {
	dial, err := e.dialer(ctx, member, contract.ClientPort)
	if err != nil {
		return nil, err
	}
	if config != nil {
		config = config.Clone()
		config.ServerName = e.names().Host(member)
	}
	connected, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{e.names().ClientURL(member)}, TLS: config, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) })},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to member %s: %w", member, err)
	}
	return connected, nil
}

// dialer connects to a port of a member through the API server.
func (e Etcd) dialer(ctx context.Context, member string, port int) (func(context.Context) (net.Conn, error), error) {
	pod := &corev1.Pod{}
	if err := e.Kube.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: member}, pod); err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", member, err)
	}
	forward := reach.Forward(e.Kube.Plain, e.Kube.Config, e.Namespace)
	node := reach.Node{Name: member, UID: string(pod.UID)}
	return func(ctx context.Context) (net.Conn, error) { return forward(ctx, node, strconv.Itoa(port)) }, nil
}

// preface is how a client opens an HTTP/2 connection: the server answers it only when it
// has accepted the client's certificate. Members ask each other over HTTP/1.1.
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	peerRequest = "GET /version HTTP/1.1\r\nHost: member\r\n\r\n"
)

func greeting(plane contract.Plane) (port int, text string, protocols []string) {
	if plane == contract.PeerPlane {
		return contract.PeerPort, peerRequest, nil
	}
	return contract.ClientPort, preface, []string{"h2"}
}

// Accepts reports whether a member serves a client with this configuration on the port of
// a plane. A connection that does not come about is an error.
func (e Etcd) Accepts(ctx context.Context, member string, plane contract.Plane, config *tls.Config) (bool, error) {
	port, hello, protocols := greeting(plane)
	dial, err := e.dialer(ctx, member, port)
	if err != nil {
		return false, err
	}
	conn, err := dial(ctx)
	if err != nil {
		return false, err
	}
	config = config.Clone()
	config.ServerName, config.NextProtos = e.names().Host(member), protocols
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return false, errors.Join(refusal(err), conn.Close())
	}
	// In TLS 1.3 a client learns with the first answer that it is refused.
	_, err = io.WriteString(secure, hello)
	if err == nil {
		_, err = io.ReadFull(secure, make([]byte, 1))
	}
	if err != nil {
		return false, errors.Join(refusal(err), conn.Close())
	}
	return true, conn.Close()
}

// AcceptsPlaintext reports whether a member serves a client without TLS on the port of a
// plane. An alert and a refusal in HTTP count as none, as the end of the connection does.
func (e Etcd) AcceptsPlaintext(ctx context.Context, member string, plane contract.Plane) (bool, error) {
	const alert, refused = "\x15", "HTTP/1.0 400"
	port, hello, _ := greeting(plane)
	dial, err := e.dialer(ctx, member, port)
	if err != nil {
		return false, err
	}
	conn, err := dial(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, hello); err != nil {
		return false, fmt.Errorf("writing to member %s: %w", member, err)
	}
	answer := make([]byte, len(refused))
	read, _ := io.ReadFull(conn, answer) // the end of the connection is an answer
	text := string(answer[:read])
	return read > 0 && !strings.HasPrefix(text, alert) && text != refused, nil
}

// refusal is nil when the error says that the server does not accept the client, otherwise
// the error.
func refusal(err error) error {
	if _, refused := errors.AsType[tls.AlertError](err); refused {
		return nil
	}
	if operation, is := errors.AsType[*net.OpError](err); is && operation.Op == "remote error" {
		return nil
	}
	return err
}

// ForgetEtcdClusters takes the EtcdClusters of a namespace away, and what they have in the
// operator's namespace, as a run that was killed may have left them: there may be no
// operator any more that does it.
func (k *Kubernetes) ForgetEtcdClusters(ctx context.Context, namespace string) error {
	clusters := &etcdv1beta2.EtcdClusterList{}
	err := k.List(ctx, clusters, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // Keyturn was never installed
	}
	if err != nil {
		return fmt.Errorf("listing EtcdClusters of namespace %s: %w", namespace, err)
	}
	var problems []error
	for i := range clusters.Items {
		problems = append(problems,
			client.IgnoreNotFound(k.Delete(ctx, &clusters.Items[i])),
			client.IgnoreNotFound(k.MergePatch(ctx, &clusters.Items[i], map[string]any{"metadata": map[string]any{"finalizers": nil}})))
	}
	for _, kind := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		problems = append(problems, k.DeleteAllOf(ctx, kind, client.InNamespace(OperatorNamespace), client.MatchingLabels{model.NamespaceLabel: namespace}))
	}
	return errors.Join(problems...)
}
