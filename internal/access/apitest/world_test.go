package apitest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/access/controller"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// world is a namespace with a Kafka cluster, users, and an access operator that reconciles when it is asked to.
type world struct {
	t         *testing.T
	namespace string
	person    client.Client
	faulty    *kubetest.Writer
	// operator is for KafkaAccesses of the public form, proposed for those of the other.
	operator, proposed *controller.Reconciler
	// references say when another namespace may be referred to.
	references controller.References
	traffic    traffic
	// events are the reasons of those that were announced.
	events []string
}

// now is the time of operators that reconcile when they are asked to.
func now() time.Time { return time.Unix(1_700_000_000, 0) }

// Eventf notes an event.
func (w *world) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	w.events = append(w.events, reason)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := connect(t)
	w := &world{t: t, namespace: kubetest.Namespace(t, c.person, "access-"), person: c.person}
	w.startOperator()
	return w
}

// startOperator starts an operator that remembers nothing, as after a crash.
func (w *world) startOperator() {
	w.faulty = &kubetest.Writer{Client: shared.operator}
	w.startWith(w.faulty)
}

func (w *world) startWith(live client.Reader) {
	options := controller.Options{
		Client: w.faulty, Live: live, Events: w, Metrics: controller.NewMetrics(), References: w.references,
		Clock: clocktesting.NewFakePassiveClock(now()),
	}
	w.operator, w.proposed = controller.New(binding.Public(), options), controller.New(binding.Proposed(), options)
}

// cluster creates everything that accesses refer to, and reports it as ready.
func (w *world) cluster() {
	w.t.Helper()
	w.kafka("my-cluster")
	w.caSecret(caOf("first"))
	w.user("my-user", kafkav1.UserTLS)
	w.secret("my-user", "strimzi-user-operator", map[string]string{"user.crt": "certificate", "user.key": "key", "ca.crt": "clients"})
	w.user("my-login", kafkav1.UserSCRAM)
	w.secret("my-login", "strimzi-user-operator", map[string]string{"password": "letmein", "sasl.jaas.config": "module required;"})
}

func (w *world) kafka(name string) {
	w.t.Helper()
	custom := &kafkav1.ListenerConfiguration{BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: "chain", Certificate: "crt", Key: "key"}}
	kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: name}}
	kafka.Spec.Kafka.Listeners = []kafkav1.Listener{
		{Name: "plain", Port: 9092, Type: kafkav1.ListenerInternal},
		{Name: "tls", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true, Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationTLS}},
		{Name: "scram", Port: 9094, Type: kafkav1.ListenerInternal, TLS: true, Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationSCRAM}},
		{Name: "custom", Port: 9095, Type: kafkav1.ListenerInternal, TLS: true, Configuration: custom},
	}
	w.create(kafka)
	for _, l := range kafka.Spec.Kafka.Listeners {
		kafka.Status.Listeners = append(kafka.Status.Listeners, kafkav1.ListenerStatus{
			Name: l.Name, BootstrapServers: fmt.Sprintf("my-cluster-kafka-bootstrap.kafka.svc:%d", l.Port),
		})
	}
	w.report(kafka)
}

func (w *world) caSecret(certificates string) {
	w.t.Helper()
	w.secret("my-cluster-cluster-ca-cert", "strimzi-cluster-operator", map[string]string{"ca.crt": certificates})
}

func (w *world) user(name string, authentication kafkav1.UserAuthenticationType) {
	w.t.Helper()
	user := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"strimzi.io/cluster": "my-cluster"}}}
	user.Spec.Template = &kafkav1.UserTemplate{} // a spec must not be empty
	if authentication != "" {
		user.Spec.Authentication = &kafkav1.UserAuthentication{Type: authentication}
	}
	w.create(user)
	if authentication == kafkav1.UserTLS || authentication == kafkav1.UserSCRAM {
		user.Status.Username, user.Status.Secret = name, name
	}
	w.report(user)
}

// secret creates a Secret of another operator.
func (w *world) secret(name, managedBy string, data map[string]string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if managedBy != "" {
		secret.Labels = map[string]string{"app.kubernetes.io/managed-by": managedBy, "strimzi.io/cluster": "my-cluster"}
	}
	w.create(secret)
}

// access creates a KafkaAccess my-app of a user.
func (w *world) access(user string, change func(access *accessv1alpha1.KafkaAccess)) {
	w.t.Helper()
	w.create(accessOf("my-app", user, change))
}

func accessOf(name, user string, change func(access *accessv1alpha1.KafkaAccess)) *accessv1alpha1.KafkaAccess {
	access := &accessv1alpha1.KafkaAccess{ObjectMeta: metav1.ObjectMeta{Name: name}}
	access.Spec.Kafka.Name = "my-cluster"
	if user != "" {
		access.Spec.User = &accessv1alpha1.KafkaUserReference{Kind: "KafkaUser", APIGroup: "kafka.strimzi.io", Name: user}
	}
	if change != nil {
		change(access)
	}
	return access
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	object.SetNamespace(w.namespace)
	if err := w.person.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// report writes the status of an object.
func (w *world) report(object client.Object) {
	w.t.Helper()
	if err := w.person.Status().Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string, into client.Object) {
	w.t.Helper()
	if err := w.person.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(name string, object client.Object, change func()) {
	w.t.Helper()
	w.get(name, object)
	change()
	if err := w.person.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) updateSecret(name, key, value string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.update(name, secret, func() { secret.Data[key] = []byte(value) })
}

func (w *world) updateAccess(change func(access *accessv1alpha1.KafkaAccess)) {
	w.t.Helper()
	access := &accessv1alpha1.KafkaAccess{}
	w.update("my-app", access, func() { change(access) })
}

func (w *world) delete(name string, object client.Object) {
	w.t.Helper()
	w.get(name, object)
	if err := w.person.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles my-app once.
func (w *world) reconcile() error {
	w.t.Helper()
	return w.reconcileNamed("my-app")
}

func (w *world) reconcileNamed(name string) error {
	w.t.Helper()
	_, err := w.operator.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}})
	return err
}

func (w *world) mustReconcile() {
	w.t.Helper()
	if err := w.reconcile(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) status() accessv1alpha1.KafkaAccessStatus {
	w.t.Helper()
	access := &accessv1alpha1.KafkaAccess{}
	w.get("my-app", access)
	return access.Status
}

// reason is that of the condition Ready of a KafkaAccess.
func (w *world) reason(name string) string {
	w.t.Helper()
	access := &accessv1alpha1.KafkaAccess{}
	w.get(name, access)
	if condition := meta.FindStatusCondition(access.Status.Conditions, "Ready"); condition != nil {
		return condition.Reason
	}
	return ""
}

// data is what a Secret holds, nil when it does not exist.
func (w *world) data(name string) map[string]string {
	w.t.Helper()
	secret := &corev1.Secret{}
	err := w.person.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data
}

// readyMessage reports whether the message of the condition Ready contains a text.
func (w *world) readyMessage(text string) bool {
	w.t.Helper()
	condition := meta.FindStatusCondition(w.status().Conditions, "Ready")
	return condition != nil && strings.Contains(condition.Message, text)
}
