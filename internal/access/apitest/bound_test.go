package apitest

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// bound is the data of a Secret for the user my-user.
func bound() map[string]string {
	const address = "my-cluster-kafka-bootstrap.kafka.svc:9093"
	return map[string]string{
		"type": "kafka", "provider": "strimzi",
		"bootstrap.servers": address, "bootstrapServers": address, "bootstrap-servers": address,
		"security.protocol": "SSL", "securityProtocol": "SSL",
		"ssl.truststore.crt": caOf("first"), "ssl.keystore.crt": "certificate", "ssl.keystore.key": "key",
	}
}

func TestAKafkaAccessIsNotReadyFirstAndThenBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	var reasons []string
	w.faulty.After = func(kubetest.Write) { reasons = append(reasons, w.reason("my-app")) }

	w.mustReconcile()

	if want := []string{"Reconciling", "Reconciling", "Reconciling", "Bound"}; !slices.Equal(reasons, want) {
		t.Errorf("after each write the reason is %v, want %v", reasons, want)
	}
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
	secret, access := &corev1.Secret{}, &accessv1alpha1.KafkaAccess{}
	w.get("my-app", secret)
	w.get("my-app", access)
	if secret.Type != "servicebinding.io/kafka" || !maps.Equal(secret.Labels, map[string]string{"app.kubernetes.io/managed-by": "kafka-access-operator"}) {
		t.Errorf("the Secret is of type %s with labels %v", secret.Type, secret.Labels)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != access.UID {
		t.Errorf("the Secret is owned by %v", secret.OwnerReferences)
	}
	condition := meta.FindStatusCondition(access.Status.Conditions, "Ready")
	if access.Status.Binding == nil || access.Status.Binding.Name != "my-app" || access.Status.ObservedGeneration != 1 || condition.Status != "True" {
		t.Errorf("the status is %+v", access.Status)
	}
	if want := []string{"Bound"}; !slices.Equal(w.events, want) {
		t.Errorf("the events are %v, want %v", w.events, want)
	}
}

func TestEveryUserGetsTheListenerItCanAuthenticateTo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		user, listener string
		want           map[string]string
	}{
		"a password":                        {user: "my-login", want: map[string]string{"security.protocol": "SASL_SSL", "password": "letmein", "user": "my-login", "ssl.truststore.crt": caOf("first")}},
		"a certificate of the application":  {user: "my-own", want: map[string]string{"security.protocol": "SSL", "ssl.truststore.crt": caOf("first"), "ssl.keystore.crt": ""}},
		"nothing":                           {listener: "plain", want: map[string]string{"security.protocol": "PLAINTEXT", "ssl.truststore.crt": ""}},
		"a user that has no authentication": {user: "my-nobody", listener: "tls", want: map[string]string{"security.protocol": "SSL", "ssl.keystore.key": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.user("my-own", kafkav1.UserTLSExternal)
			w.user("my-nobody", "")
			w.access(test.user, func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Listener = test.listener })
			w.mustReconcile()
			data := w.data("my-app")
			for key, want := range test.want {
				if data[key] != want {
					t.Errorf("%s is %q, want %q (%s)", key, data[key], want, w.reason("my-app"))
				}
			}
		})
	}
}

func TestNothingIsWrittenWhereNothingChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", func(a *accessv1alpha1.KafkaAccess) { withTemplate(a, map[string]string{"team": "checkout"}) })
	w.mustReconcile()
	for _, how := range []string{"again", "after a restart"} {
		w.faulty.Written = 0
		w.mustReconcile()
		if w.faulty.Written != 0 {
			t.Errorf("%s the operator writes %d times", how, w.faulty.Written)
		}
		w.startOperator()
	}
}

func withTemplate(access *accessv1alpha1.KafkaAccess, labels map[string]string) {
	access.Spec.Template = &accessv1alpha1.KafkaAccessTemplate{
		Secret: &accessv1alpha1.SecretTemplate{Metadata: &accessv1alpha1.MetadataTemplate{Labels: labels, Annotations: maps.Clone(labels)}},
	}
}

func TestWhatChangesIsInTheSecret(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *world)
		want   map[string]string
	}{
		"the cluster CA": {
			change: func(w *world) { w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("first", "second")) },
			want:   map[string]string{"ssl.truststore.crt": caOf("first", "second")},
		},
		"the certificate of the user": {
			change: func(w *world) { w.updateSecret("my-user", "user.crt", "renewed") },
			want:   map[string]string{"ssl.keystore.crt": "renewed"},
		},
		"the address": {
			change: func(w *world) {
				kafka := &kafkav1.Kafka{}
				w.get("my-cluster", kafka)
				kafka.Status.Listeners[1].BootstrapServers = "elsewhere:9093"
				w.report(kafka)
			},
			want: map[string]string{"bootstrap.servers": "elsewhere:9093", "bootstrapServers": "elsewhere:9093", "bootstrap-servers": "elsewhere:9093"},
		},
		"a value that another owner has overwritten": {
			change: func(w *world) { w.updateSecret("my-app", "ssl.keystore.key", "overwritten") },
		},
		"a value that another owner has removed": {
			change: func(w *world) {
				secret := &corev1.Secret{}
				w.update("my-app", secret, func() { delete(secret.Data, "type") })
			},
		},
		"the deleted Secret": {
			change: func(w *world) { w.delete("my-app", &corev1.Secret{}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.access("my-user", nil)
			w.mustReconcile()
			test.change(w)
			w.mustReconcile()
			want := bound()
			maps.Copy(want, test.want)
			if diff := cmp.Diff(want, w.data("my-app")); diff != "" {
				t.Errorf("the Secret differs (-want +got):\n%s", diff)
			}
			w.faulty.Written = 0
			w.mustReconcile()
			if w.faulty.Written != 0 {
				t.Errorf("the operator still writes: %d times", w.faulty.Written)
			}
		})
	}
}

func TestWhatIsTakenOutOfTheTemplateLeavesTheSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-login", func(a *accessv1alpha1.KafkaAccess) {
		withTemplate(a, map[string]string{"team": "checkout", "tier": "gold", "strimzi.io/cluster": "other"})
	})
	w.mustReconcile()
	secret := &corev1.Secret{}
	w.update("my-app", secret, func() { secret.Labels["mine"] = "stays" })

	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) {
		withTemplate(a, map[string]string{"team": "payment"})
		a.Spec.User.Name = "my-user"
	})
	w.mustReconcile()

	w.get("my-app", secret)
	want := map[string]string{"team": "payment", "mine": "stays", "app.kubernetes.io/managed-by": "kafka-access-operator"}
	if diff := cmp.Diff(want, secret.Labels); diff != "" {
		t.Errorf("labels differ (-want +got):\n%s", diff)
	}
	delete(secret.Annotations, "keyturn.dev/source")
	if diff := cmp.Diff(map[string]string{"team": "payment"}, secret.Annotations); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Errorf("credentials of another user are left (-want +got):\n%s", diff)
	}
}

func TestWhateverWriteTheOperatorCrashesAtTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *world)
		secret string
		writes int
	}{
		"creating":  {change: func(*world) {}, secret: "my-app", writes: 4},
		"renaming":  {change: func(w *world) { w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" }) }, secret: "renamed", writes: 4},
		"a renewal": {change: func(w *world) { w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("first")) }, secret: "my-app", writes: 1},
		"a bad time": {change: func(w *world) {
			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Listener = "scram" })
		}, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashes := 0
			for n := 1; ; n++ {
				if !crashAt(t, n, name == "creating", test.change, test.secret) {
					break
				}
				crashes++
			}
			if crashes != test.writes {
				t.Errorf("the operator has crashed at %d writes, want %d", crashes, test.writes)
			}
		})
	}
}

// crashAt lets the operator crash at its nth write, and reports whether there was one.
func crashAt(t *testing.T, n int, creating bool, change func(w *world), secret string) (crashed bool) {
	t.Helper()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	if !creating {
		w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("before"))
		w.mustReconcile()
		w.startOperator()
	}
	change(w)
	w.faulty.CrashAt = n
	crashed = w.reconcile() != nil
	if secret != "" {
		if data := w.data(secret); data != nil && len(data) != len(bound()) {
			t.Errorf("after a crash at write %d an application finds %v", n, slices.Sorted(maps.Keys(data)))
		}
	}
	w.startOperator()
	if creating || secret == "renamed" {
		w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("first"))
	}
	w.mustReconcile()
	w.faulty.Written = 0
	w.mustReconcile()
	if w.faulty.Written != 0 {
		t.Errorf("after a crash at write %d the operator still writes", n)
	}
	if secret == "" {
		if reason := w.reason("my-app"); reason != "IncompatibleListener" {
			t.Errorf("after a crash at write %d the reason is %s", n, reason)
		}
		return crashed
	}
	if diff := cmp.Diff(bound(), w.data(secret)); diff != "" {
		t.Errorf("after a crash at write %d the Secret differs (-want +got):\n%s", n, diff)
	}
	if status := w.status(); status.Binding == nil || status.Binding.Name != secret || w.reason("my-app") != "Bound" {
		t.Errorf("after a crash at write %d the status is %+v", n, status)
	}
	if secret == "renamed" && w.data("my-app") != nil {
		t.Errorf("after a crash at write %d the previous Secret is left", n)
	}
	return crashed
}
