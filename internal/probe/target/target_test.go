package target

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

func names() reach.Names { return reach.Names{Namespace: "ns", Cluster: "c"} }

func listener(name string, port int64, secured bool, auth string) map[string]any {
	fields := map[string]any{"name": name, "port": port, "type": "internal", "tls": secured}
	if auth != "" {
		fields["authentication"] = map[string]any{"type": auth}
	}
	return fields
}

func kafka(listeners ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "Kafka",
		"metadata": map[string]any{"name": "c", "namespace": "ns"},
		"spec":     map[string]any{"kafka": map[string]any{"listeners": listeners}},
	}}
}

func TestListenersOfAKafkaResource(t *testing.T) {
	t.Parallel()
	nodePort := listener("outside", 9095, true, "")
	nodePort["type"] = "nodeport"
	got, err := listenersOf(kafka(listener("plain", 9092, false, ""), nodePort, listener("internal", 9094, true, "tls")), names())
	if err != nil {
		t.Fatal(err)
	}
	want := []probe.Listener{
		{Name: "plain", Port: 9092, Role: probe.RoleBroker, Bootstrap: "c-kafka-bootstrap.ns.svc:9092"},
		{Name: "internal", Port: 9094, TLS: true, Auth: probe.AuthTLS, Role: probe.RoleBroker, Bootstrap: "c-kafka-bootstrap.ns.svc:9094"},
		{Name: Replication, Port: 9091, TLS: true, Auth: probe.AuthTLS, Role: probe.RoleBroker, Bootstrap: "c-kafka-brokers.ns.svc:9091"},
		{Name: ControlPlane, Port: 9090, TLS: true, Auth: probe.AuthTLS, Role: probe.RoleController},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}

func TestAKafkaWithoutListenersSaysSo(t *testing.T) {
	t.Parallel()
	for name, resource := range map[string]*unstructured.Unstructured{
		"none":     kafka(),
		"no spec":  {Object: map[string]any{}},
		"no field": kafka("text"),
	} {
		if _, err := listenersOf(resource, names()); !errors.Is(err, errNoListeners) {
			t.Errorf("%s: error %v, want %v", name, err, errNoListeners)
		}
	}
}

func TestReadKafkaAcceptsBothVersions(t *testing.T) {
	t.Parallel()
	kinds := map[schema.GroupVersionResource]string{
		{Group: "kafka.strimzi.io", Version: "v1", Resource: "kafkas"}:      "KafkaList",
		{Group: "kafka.strimzi.io", Version: "v1beta2", Resource: "kafkas"}: "KafkaList",
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, kafka())
	if _, err := readKafka(t.Context(), client, names()); err != nil {
		t.Errorf("an old resource is not found: %v", err)
	}
	missing := reach.Names{Namespace: "ns", Cluster: "other"}
	if _, err := readKafka(t.Context(), client, missing); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want that it is not found", err)
	}
}

func newAuthority(t *testing.T, commonName string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: "io.strimzi", CommonName: commonName},
		Key:     pki.DefaultCAKey(pki.ECDSA), Validity: 48 * time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: data}
}

// cluster is a target on a fake API server, with listeners of all sorts.
func cluster(t *testing.T, secrets ...*corev1.Secret) (*Target, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset()
	for _, secret := range secrets {
		if err := client.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	listeners, err := listenersOf(kafka(
		listener("plain", 9092, false, ""), listener("tls", 9093, true, ""),
		listener("internal", 9094, true, "tls"), listener("scram", 9095, true, "scram-sha-512"),
	), names())
	if err != nil {
		t.Fatal(err)
	}
	return &Target{
		names: names(), client: client, listeners: listeners, sources: map[string]probe.Source{},
		watch:        func(name string) (probe.Source, error) { return watchSecret(t.Context(), client, "ns", name) },
		watchVersion: func(string) (func() string, error) { return func() string { return "1" }, nil },
	}, client
}

func caSecrets(clusterCA, clientsCA pki.Authority) []*corev1.Secret {
	return []*corev1.Secret{
		secret("c-cluster-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(clusterCA.Certificate())}),
		secret("c-clients-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(clientsCA.Certificate())}),
		secret("c-clients-ca", map[string][]byte{"ca.key": clientsCA.Key().PEM()}),
	}
}

func TestKindsFindTheirListeners(t *testing.T) {
	t.Parallel()
	target, _ := cluster(t)
	cases := map[string]struct {
		request Request
		want    []string
		fails   bool
	}{
		"each kind on the first that fits": {
			request: Request{Kinds: []string{"pinned", "mtls", "scram", "plain"}},
			want:    []string{"pinned@tls", "mtls@internal", "scram@scram", "plain@plain"},
		},
		"one listener for all that name none": {
			request: Request{Kinds: []string{"pinned", "mtls@internal"}, Listener: "scram"},
			want:    []string{"pinned@scram", "mtls@internal"},
		},
		"a listener that is not there": {request: Request{Kinds: []string{"pinned@nowhere"}}, fails: true},
		"no kinds at all":              {request: Request{}, fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wanted, err := target.wanted(c.request)
			if (err != nil) != c.fails {
				t.Fatalf("error %v", err)
			}
			var got []string
			for _, want := range wanted {
				got = append(got, want.kind+"@"+want.listener.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientsGetTheIdentityTheirListenerWants(t *testing.T) {
	t.Parallel()
	target, _ := cluster(t, caSecrets(newAuthority(t, "cluster-ca v0"), newAuthority(t, "clients-ca v0"))...)
	options, err := target.Options(t.Context(), Request{
		Run: "r", Kinds: []string{"pinned", "ca.crt", "ca.crt-first", "all-crt", "mtls", "mtls-reissued", "scram", "plain"}, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	type identity struct {
		Kind, Listener, Login        string
		TrustsSomething, Certificate bool
	}
	var got []identity
	for _, client := range options.Clients {
		found := identity{Kind: client.Kind, Listener: client.Listener.Name, TrustsSomething: client.Trust != nil, Certificate: client.Credential != nil}
		if client.Login != nil {
			found.Login = client.Login.User
		}
		got = append(got, found)
	}
	want := []identity{
		{Kind: "pinned", Listener: "tls", TrustsSomething: true},
		{Kind: "ca.crt", Listener: "tls", TrustsSomething: true},
		{Kind: "ca.crt-first", Listener: "tls", TrustsSomething: true},
		{Kind: "all-crt", Listener: "tls", TrustsSomething: true},
		{Kind: "mtls", Listener: "internal", TrustsSomething: true, Certificate: true},
		{Kind: "mtls-reissued", Listener: "internal", TrustsSomething: true, Certificate: true},
		{Kind: "scram", Listener: "scram", TrustsSomething: true, Login: "keyturn-probe"},
		{Kind: "plain", Listener: "plain"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	if options.Admin != nil || options.Evidence != nil {
		t.Error("without the operator's Secret there is no admin and no evidence")
	}
	if diff := cmp.Diff([]string{"CN=keyturn-probe-r", "keyturn-probe"}, options.Grants); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
}

func TestTheOperatorPreparesWhereItsSecretCanBeRead(t *testing.T) {
	t.Parallel()
	secrets := append(caSecrets(newAuthority(t, "cluster-ca v0"), newAuthority(t, "clients-ca v0")), secret("c-cluster-operator-certs", nil))
	target, _ := cluster(t, secrets...)
	options, err := target.Options(t.Context(), Request{Run: "r", Kinds: []string{"pinned"}, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	if options.Admin == nil || options.Admin.Listener.Name != Replication || options.Evidence == nil {
		t.Errorf("admin %+v, want the operator on the replication listener, with evidence", options.Admin)
	}
}

func TestTrustFollowsTheSecretAndAPinDoesNot(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t, "cluster-ca v0"), newAuthority(t, "cluster-ca v1")
	target, client := cluster(t, caSecrets(old, newAuthority(t, "clients-ca v0"))...)
	pinned, follows := trustOf(t, target, probe.KindPinned), trustOf(t, target, probe.KindBundle)
	changed := secret("c-cluster-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(next.Certificate())})
	changed.ResourceVersion = "2"
	if _, err := client.CoreV1().Secrets("ns").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return poolOf(t, follows).Equal(only(next)) })
	if !poolOf(t, pinned).Equal(only(old)) {
		t.Error("a pinned client trusts something else than at its start")
	}
}

func trustOf(t *testing.T, target *Target, kind string) probe.Trust {
	t.Helper()
	trust, err := target.Trust(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func poolOf(t *testing.T, trust probe.Trust) *x509.CertPool {
	t.Helper()
	pool, err := trust(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func only(ca pki.Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate())
	return pool
}

// await waits for a condition that a watch brings about.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatal("the change was never seen")
		case <-ticker.C:
		}
	}
}
