package controller

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

func TestSecretsThatAUserBringsAreReferredTo(t *testing.T) {
	t.Parallel()
	custom := func(secret string) kafkav1.Listener {
		return kafkav1.Listener{Configuration: &kafkav1.ListenerConfiguration{
			BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: secret},
		}}
	}
	brought := &kafkav1.CertificateAuthority{GenerateCertificateAuthority: new(false)}
	for name, c := range map[string]struct {
		spec kafkav1.KafkaSpec
		want []string
	}{
		"of a cluster that brings nothing": {},
		"of listeners, each once and in order": {
			spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{custom("b"), {}, custom("a"), custom("b")}}},
			want: []string{"a", "b"},
		},
		"of a listener that names none": {
			spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{custom(""), {Configuration: &kafkav1.ListenerConfiguration{}}}}},
		},
		"of listeners that name what no object is called": {
			spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{custom("a/b"), custom(".."), custom("%2e%2e"), custom("a")}}},
			want: []string{"a"},
		},
		"of the cluster CA": {
			spec: kafkav1.KafkaSpec{ClusterCa: brought}, want: []string{"my-cluster-ca", "my-cluster-ca-cert"},
		},
		"of the clients CA, and of a listener": {
			spec: kafkav1.KafkaSpec{ClientsCa: brought, Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{custom("my-a")}}},
			want: []string{"my-a", "my-clients-ca", "my-clients-ca-cert"},
		},
		"of authorities that the operator makes": {
			spec: kafkav1.KafkaSpec{ClusterCa: &kafkav1.CertificateAuthority{}, ClientsCa: &kafkav1.CertificateAuthority{GenerateCertificateAuthority: new(true)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := referencedSecrets(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: "my"}, Spec: c.spec})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Nothing but the Secret's name leads to the Kafka: it carries no label.
func TestASecretThatAKafkaNamesWakesAPassOverIt(t *testing.T) {
	t.Parallel()
	scheme, mapper := known(t)
	sought := make(chan string, 100)
	server := nowhere(t)
	server.sought = sought
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://server.invalid", Transport: server}, ctrl.Options{
		Scheme: scheme, Cache: CacheOptions(nil), Client: ClientOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Metrics: metrics.New(), Clock: clock.RealClock{}})
	if err := r.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	r.named.Refer(types.NamespacedName{Namespace: "ns", Name: "my"}, []string{"key"})
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	failed, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		failed <- mgr.Start(ctx)
	}()
	defer func() {
		stop()
		<-ended
	}()

	select {
	case path := <-sought:
		if path != "/apis/kafka.strimzi.io/v1/namespaces/ns/kafkas/my" {
			t.Errorf("%s was read, want the Kafka", path)
		}
	case err := <-failed:
		t.Fatalf("nobody has looked at the Kafka: %v", err)
	}
}

func TestAPassRefersToWhatItsKafkaNames(t *testing.T) {
	t.Parallel()
	kafka := rawObject(kafkaKind())
	kafka.SetNamespace("ns")
	kafka.SetName("my")
	kafka.Object["spec"] = map[string]any{"clusterCa": map[string]any{"generateCertificateAuthority": false}}
	ending := kafka.DeepCopy()
	ending.SetFinalizers([]string{"example.com/held"})
	ending.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	scheme, _ := known(t)
	for name, c := range map[string]struct {
		kafka *unstructured.Unstructured
		want  int
	}{
		"that is there":         {kafka, 1 + 2}, // the Kafka, and two Secrets
		"that is being deleted": {ending, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.kafka).Build()
			r := New(Options{Client: server, Live: server, Clock: clock.RealClock{}, Metrics: metrics.New()})

			if _, _, err := r.observe(t.Context(), client.ObjectKeyFromObject(c.kafka)); err != nil {
				t.Fatal(err)
			}

			if got := r.named.Len(); got != c.want {
				t.Errorf("%d Kafkas and Secrets are watched, want %d", got, c.want)
			}
		})
	}
}

// asked counts what the API server is asked for about Secrets.
type asked struct {
	// lists are whole lists of Secrets, and gets the names of those that were read.
	lists int
	gets  []string
}

func (a *asked) of(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, from client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if _, whole := into.(*corev1.SecretList); whole {
				a.lists++
			}
			return from.List(ctx, into, opts...)
		},
		Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			a.gets = append(a.gets, key.Name)
			return from.Get(ctx, key, into, opts...)
		},
	}).Build()
}

// secretOf is a Secret with the label of cluster my.
func secretOf(kind, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: map[string]string{model.ClusterLabel: "my", model.KindLabel: kind},
	}}
}

func authoritySecrets() []client.Object {
	var objects []client.Object
	for _, kind := range kinds() {
		for _, name := range []string{kind.KeySecret("my"), kind.CertSecret("my"), kind.TrustedCertsSecret("my")} {
			objects = append(objects, secretOf("Kafka", name))
		}
	}
	return objects
}

func observedSecrets(t *testing.T, cached, live client.WithWatch) []string {
	t.Helper()
	r := New(Options{Client: cached, Live: live, Metrics: metrics.New()})
	o := &observation{kafka: kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my", UID: "1"}}}
	if err := r.observeSecrets(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(o.secrets))
}

func TestSecretsOfAClusterAreReadByTheirNamesBesideAnyNumberOfOthers(t *testing.T) {
	t.Parallel()
	ours := append(authoritySecrets(), secretOf("Kafka", "my-dual-0"))
	owned := secretOf("Kafka", "my-companion")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: "my", UID: "1"}}
	ours = append(ours, owned)
	var want []string
	for _, object := range ours {
		want = append(want, object.GetName())
	}
	slices.Sort(want)
	others := []client.Object{secretOf(kafkaUserKind, "user-1"), secretOf(kafkaUserKind, "my-dual-9"), secretOf("", "stranger")}
	var server asked

	got := observedSecrets(t, server.of(append(others, ours...)...), server.of(append(others, ours...)...))

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if server.lists > 0 {
		t.Errorf("all Secrets of the cluster were listed %d times", server.lists)
	}
	for _, other := range others {
		if slices.Contains(server.gets, other.GetName()) {
			t.Errorf("Secret %s was read", other.GetName())
		}
	}
}

// A cache that lags behind does not let an authority be made again that nodes depend on.
func TestSecretsOfNodesAreLookedForPastTheCacheWhereAnAuthorityIsMissing(t *testing.T) {
	t.Parallel()
	var server asked
	live := server.of(secretOf("Kafka", "my-dual-0"))

	got := observedSecrets(t, server.of(), live)

	if diff := cmp.Diff([]string{"my-dual-0"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
