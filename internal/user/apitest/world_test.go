package apitest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/user/controller"
)

// apiServer is the connection that all tests share. Each test has a namespace of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		apiServer = server.Config
		return m.Run()
	}))
}

const (
	cluster     = "my-cluster"
	reissueRate = 10
)

// world is a namespace with a Kafka and its clients CA, and a user operator.
type world struct {
	t          *testing.T
	person     client.Client
	asOperator client.Client
	namespace  string
	clock      *clocktesting.FakePassiveClock
	// ahead is how much the clock is ahead of the API server's.
	ahead  time.Duration
	live   *liveReader
	stores authority.StoreGeneration
	// prefix begins the names of users' Secrets.
	prefix   string
	kafka    *adminfake.Users
	writer   *kubetest.Writer
	operator *controller.Reconciler
	figures  *controller.Metrics
	// elsewhere is an issuer that holds the key of the clients CA, and gates say whether users may be moved to it.
	elsewhere *outsideIssuer
	gates     featuregate.Gates
	// rights are those of an operator that runs, nil for all, and observer is what it knows of its watches, nil for one of the real time.
	rights   *rest.Config
	observer *watches.Observer
}

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// newWorld is a world in a namespace of its own, whose operator may do everything.
func newWorld(t *testing.T) *world {
	t.Helper()
	person := connect(t, apiServer)
	return newWorldIn(t, kubetest.Namespace(t, person, "users-"), person)
}

func connect(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	return kubetest.Connect(t, config, kafkav1.AddToScheme)
}

// newWorldIn has a Kafka with ECDSA keys, which are made quickly.
func newWorldIn(t *testing.T, namespace string, operator client.Client) *world {
	t.Helper()
	w := &world{
		t: t, person: connect(t, apiServer), asOperator: operator, namespace: namespace,
		live: &liveReader{Reader: operator}, stores: authority.WithStores, clock: clocktesting.NewFakePassiveClock(noon()),
		kafka: adminfake.NewUsers(),
	}
	w.elsewhere = &outsideIssuer{w: w, issued: map[string]issuer.Issued{}}
	w.create(&kafkav1.Kafka{
		ObjectMeta: w.meta(cluster),
		Spec: kafkav1.KafkaSpec{
			Kafka: kafkav1.KafkaClusterSpec{
				Listeners: []kafkav1.Listener{{
					Name: "scram", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true,
					Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationSCRAM},
				}},
				Authorization: &kafkav1.Authorization{Type: kafkav1.AuthorizationSimple},
			},
			ClientsCa: &kafkav1.CertificateAuthority{KeyAlgorithm: kafkav1.ECDSA},
		},
	})
	w.newCA("clients-ca v0")
	w.restart()
	return w
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.person.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// newCA puts a new clients CA into its two Secrets, as at the end of a replacement.
func (w *world) newCA(name string) pki.Authority {
	w.t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: "io.strimzi", CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA),
		Validity: 365 * authority.Day, Now: w.clock.Now(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.put("my-cluster-clients-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(ca.Certificate())})
	w.put("my-cluster-clients-ca", map[string][]byte{"ca.key": ca.Key().PEM()})
	return ca
}

// put creates a Secret of the cluster or replaces what it holds.
func (w *world) put(name string, data map[string][]byte) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: w.meta(name)}
	secret.Labels = map[string]string{"strimzi.io/cluster": cluster, "strimzi.io/kind": "Kafka"}
	w.remove(name)
	secret.Data = data
	w.create(secret)
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := client.IgnoreNotFound(w.person.Delete(w.t.Context(), &corev1.Secret{ObjectMeta: w.meta(name)})); err != nil {
		w.t.Fatal(err)
	}
}

// restart replaces the operator by one that remembers nothing.
func (w *world) restart() {
	w.writer = &kubetest.Writer{Client: w.asOperator}
	w.operator = controller.New(controller.Options{
		Client: w.writer, Live: w.live, Events: events.NewFakeRecorder(100), Log: logr.Discard(), Clock: w.clock, Ahead: func() time.Duration { return w.ahead },
		Cluster: types.NamespacedName{Namespace: w.namespace, Name: cluster}, Stores: w.stores, Metrics: w.metrics(),
		Kafka: countingKafka{w.kafka, w.writer}, Issuers: w.elsewhere, Gates: w.gates, ReissueRate: reissueRate, SecretPrefix: w.prefix,
	})
}

// metrics are those of a new process.
func (w *world) metrics() *controller.Metrics {
	w.figures = controller.NewMetrics(types.NamespacedName{Namespace: w.namespace, Name: cluster})
	return w.figures
}

// user creates a KafkaUser of the cluster.
func (w *world) user(name string, spec kafkav1.KafkaUserSpec) {
	w.t.Helper()
	user := &kafkav1.KafkaUser{ObjectMeta: w.meta(name), Spec: spec}
	user.Labels = map[string]string{"strimzi.io/cluster": cluster, "team": "checkout"}
	w.create(user)
}

func tls() kafkav1.KafkaUserSpec {
	return kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kafkav1.UserTLS}}
}

// try reconciles a user once.
func (w *world) try(name string) (ctrl.Result, error) {
	return w.operator.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}})
}

func (w *world) reconcile(name string) ctrl.Result {
	w.t.Helper()
	for {
		result, err := w.try(name)
		if err != nil {
			w.t.Fatal(err)
		}
		if !w.elsewhere.works() {
			return result
		}
	}
}

func (w *world) stored(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func (w *world) status(name string) kafkav1.KafkaUserStatus {
	w.t.Helper()
	user := &kafkav1.KafkaUser{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, user); err != nil {
		w.t.Fatal(err)
	}
	return user.Status
}

// reasonOf is the reason of a condition that is True, and whether there is one.
func reasonOf(status kafkav1.KafkaUserStatus, kind condition.Type) (reason, message string, holds bool) {
	for _, c := range status.Conditions {
		if c.Type == kind && c.Status == condition.True {
			return c.Reason, c.Message, true
		}
	}
	return "", "", false
}

// countingKafka counts what is changed in Kafka among the writes of the operator.
type countingKafka struct {
	admin.UsersClient

	writer *kubetest.Writer
}

func (k countingKafka) CreateACLs(ctx context.Context, user string, acls []principal.ACL) error {
	return k.countIf(len(acls), "create ACLs of", user, func() error { return k.UsersClient.CreateACLs(ctx, user, acls) })
}

func (k countingKafka) DeleteACLs(ctx context.Context, user string, acls []principal.ACL) error {
	return k.countIf(len(acls), "delete ACLs of", user, func() error { return k.UsersClient.DeleteACLs(ctx, user, acls) })
}

func (k countingKafka) AlterQuotas(ctx context.Context, user string, set map[principal.Quota]float64, unset []principal.Quota) error {
	return k.countIf(len(set)+len(unset), "alter quotas of", user, func() error { return k.UsersClient.AlterQuotas(ctx, user, set, unset) })
}

func (k countingKafka) UpsertPassword(ctx context.Context, user, password string) error {
	return k.writer.Count("upsert password of", user, func() error { return k.UsersClient.UpsertPassword(ctx, user, password) })
}

func (k countingKafka) RevokePassword(ctx context.Context, user string) error {
	return k.writer.Count("revoke password of", user, func() error { return k.UsersClient.RevokePassword(ctx, user) })
}

// countIf counts a write unless it changes nothing.
func (k countingKafka) countIf(changes int, verb, user string, write func() error) error {
	if changes == 0 {
		return write()
	}
	return k.writer.Count(verb, user, write)
}
