package apitest

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/pki"
)

// A rotation must not find applications with what was true when their KafkaAccess was last in order.
func TestASecretFollowsARotationWhileTheSpecIsBad(t *testing.T) {
	t.Parallel()
	rotated := map[string]string{"ssl.truststore.crt": caOf("first", "second"), "ssl.keystore.crt": "renewed"}
	trusted := map[string]string{"ssl.truststore.crt": caOf("first", "second")}
	for name, test := range map[string]struct {
		spoil  func(w *world)
		want   map[string]string
		reason string
	}{
		"no such listener": {spoil: func(w *world) { w.updateAccess(listener("none")) }, want: rotated, reason: "ListenerNotFound"},
		"another listener": {spoil: func(w *world) { w.updateAccess(listener("scram")) }, want: rotated, reason: "IncompatibleListener"},
		"no such listener, and other keys": {spoil: func(w *world) {
			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Listener, a.Spec.PKCS12 = "none", new(true) })
		}, want: rotated, reason: "ListenerNotFound"},
		"no such Kafka": {spoil: func(w *world) { w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Name = "none" }) }, want: rotated, reason: "MissingKubernetesResource"},
		"no such user":  {spoil: func(w *world) { w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Name = "none" }) }, want: rotated, reason: "MissingKubernetesResource"},
		"another kind":  {spoil: func(w *world) { w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Kind = "Secret" }) }, want: rotated, reason: "InvalidUserKind"},
		"another namespace": {spoil: func(w *world) {
			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Namespace = "other" })
		}, want: rotated, reason: "NamespaceNotAllowed"},
		"a name that none has": {spoil: func(w *world) { w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "My_App" }) }, want: rotated, reason: "InvalidSecret"},
		"a name of others":     {spoil: func(w *world) { w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "my-login" }) }, want: rotated, reason: "ForeignObject"},
		"a label that is none": {spoil: func(w *world) {
			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { withTemplate(a, map[string]string{"team": "a b"}) })
		}, want: rotated, reason: "InvalidSecret"},
		"a user of another one":  {spoil: anotherCluster, want: trusted, reason: "UserOfAnotherCluster"},
		"a user without status":  {spoil: noUserStatus, want: trusted, reason: "WaitingForUser"},
		"a user that is deleted": {spoil: func(w *world) { w.delete("my-user", &kafkav1.KafkaUser{}) }, want: trusted, reason: "MissingKubernetesResource"},
		"a user of another type": {spoil: func(w *world) {
			user := &kafkav1.KafkaUser{}
			w.update("my-user", user, func() { user.Spec.Authentication.Type = kafkav1.UserSCRAM })
			w.updateAccess(listener("tls"))
		}, want: trusted, reason: "IncompatibleListener"},
		"a Secret without a key": {spoil: func(w *world) { w.updateSecret("my-user", "user.key", "") }, want: trusted, reason: "IncompleteSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.access("my-user", nil)
			w.mustReconcile()
			test.spoil(w)
			w.mustReconcile()
			if reason := w.reason("my-app"); reason != test.reason {
				t.Errorf("the reason is %s, want %s", reason, test.reason)
			}
			w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("first", "second"))
			w.updateSecret("my-user", "user.crt", "renewed")
			w.startOperator()
			w.mustReconcile()
			want := bound()
			maps.Copy(want, test.want)
			if diff := cmp.Diff(want, w.data("my-app")); diff != "" {
				t.Errorf("the Secret differs (-want +got):\n%s", diff)
			}
			if status := w.status(); w.reason("my-app") != test.reason || status.Binding == nil || status.Binding.Name != "my-app" {
				t.Errorf("the reason is %s, the binding %v", w.reason("my-app"), status.Binding)
			}
			w.faulty.Written = 0
			w.mustReconcile()
			if w.faulty.Written != 0 {
				t.Errorf("the operator still writes: %d times", w.faulty.Written)
			}
		})
	}
}

// onCustom lets users with a certificate connect to the listener with a certificate of its own, as my-app does.
func (w *world) onCustom() {
	w.t.Helper()
	kafka := &kafkav1.Kafka{}
	w.update("my-cluster", kafka, func() {
		kafka.Spec.Kafka.Listeners[3].Authentication = &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationTLS}
	})
	_, chain := chainOf(w.t, "root")
	w.secret("chain", "", map[string]string{"crt": string(pki.EncodeBundle(chain...)), "key": "private"})
	w.access("my-user", listener("custom"))
}

// What is known of address, CA and credentials is followed, and what is not stays.
func TestAPartThatIsUnknownDoesNotKeepBackTheOthers(t *testing.T) {
	t.Parallel()
	const address, keystore, trust = "bootstrap.servers", "ssl.keystore.crt", "ssl.truststore.crt"
	for name, test := range map[string]struct {
		spoil    func(w *world)
		reason   string
		followed []string
	}{
		"a chain without its root": {
			spoil:    func(w *world) { w.delete("chain", &corev1.Secret{}); chainWithoutRoot(w) },
			reason:   "TrustUnknown",
			followed: []string{address, keystore},
		},
		"a chain that is lost": {
			spoil:    func(w *world) { w.delete("chain", &corev1.Secret{}) },
			reason:   "MissingKubernetesResource",
			followed: []string{address, keystore},
		},
		"a Kafka without status": {spoil: noKafkaStatus, reason: "WaitingForKafka", followed: []string{trust, keystore}},
		"a Kafka that is lost": {
			spoil:    func(w *world) { w.delete("my-cluster", &kafkav1.Kafka{}) },
			reason:   "MissingKubernetesResource",
			followed: []string{keystore},
		},
		"a listener that is removed": {
			spoil: func(w *world) {
				kafka := &kafkav1.Kafka{}
				w.update("my-cluster", kafka, func() { kafka.Spec.Kafka.Listeners = kafka.Spec.Kafka.Listeners[:3] })
			},
			reason:   "ListenerNotFound",
			followed: []string{keystore},
		},
		"a user that is lost": {
			spoil:    func(w *world) { w.delete("my-user", &kafkav1.KafkaUser{}) },
			reason:   "MissingKubernetesResource",
			followed: []string{address, trust},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.onCustom()
			w.mustReconcile()
			want := w.data("my-app")
			if w.reason("my-app") != "Bound" {
				t.Fatalf("the reason is %s", w.reason("my-app"))
			}
			test.spoil(w)
			next := w.renewAll()
			for _, key := range test.followed {
				want[key] = next[key]
			}
			want["bootstrapServers"], want["bootstrap-servers"] = want[address], want[address]
			w.startOperator()
			w.mustReconcile()
			if diff := cmp.Diff(want, w.data("my-app")); diff != "" || w.reason("my-app") != test.reason {
				t.Errorf("the reason is %s; the Secret differs (-want +got):\n%s", w.reason("my-app"), diff)
			}
			w.faulty.Written = 0
			w.mustReconcile()
			if w.faulty.Written != 0 {
				t.Errorf("the operator still writes: %d times", w.faulty.Written)
			}
		})
	}
}

// renewAll changes what is there of address, CA and credentials, and returns what a Secret gets of it.
func (w *world) renewAll() map[string]string {
	w.t.Helper()
	root, chain := chainOf(w.t, "next")
	kafka, secret := &kafkav1.Kafka{}, &corev1.Secret{}
	if w.exists("my-cluster", kafka) && len(kafka.Status.Listeners) > 0 {
		kafka.Status.Listeners[3].BootstrapServers = "elsewhere:9095"
		w.report(kafka)
	}
	if w.exists("chain", secret) && strings.Count(string(secret.Data["crt"]), "BEGIN") == len(chain) {
		w.updateSecret("chain", "crt", string(pki.EncodeBundle(chain...)))
	}
	w.updateSecret("my-user", "user.crt", "renewed")
	return map[string]string{
		"bootstrap.servers": "elsewhere:9095", "ssl.keystore.crt": "renewed", "ssl.truststore.crt": string(pki.EncodeBundle(root)),
	}
}

func (w *world) exists(name string, into client.Object) bool {
	w.t.Helper()
	err := w.person.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// A Secret that an earlier version of the operator has written says nothing of where it came from.
func TestASecretOfUnknownSourceStaysAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	secret := &corev1.Secret{}
	w.update("my-app", secret, func() { secret.Annotations = nil })
	w.updateAccess(listener("none"))
	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("second"))
	w.mustReconcile()
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
}

// Otherwise the right to change this one Secret would be the right to read the credentials of every user.
func TestASourceThatOthersHaveWrittenIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	secret := &corev1.Secret{}
	w.update("my-app", secret, func() {
		secret.Annotations["keyturn.dev/source"] = strings.ReplaceAll(strings.ReplaceAll(secret.Annotations["keyturn.dev/source"], "my-user", "my-login"), "tls", "scram")
	})
	w.updateAccess(listener("none"))
	w.mustReconcile()
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
}

// A cluster CA that is damaged by hand leaves nodes as they are, and must leave applications as they are.
func TestADamagedClusterCAIsNotHandedToApplications(t *testing.T) {
	t.Parallel()
	for name, damaged := range map[string]string{
		"a key behind it":       caOf("second") + string(authorities["second"].Key().PEM()),
		"half of a certificate": caOf("second")[:len(caOf("second"))/2],
		"no certificate":        "second",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.access("my-user", nil)
			w.mustReconcile()
			w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", damaged)
			w.mustReconcile()
			if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
				t.Errorf("the Secret differs (-want +got):\n%s", diff)
			}
			if w.reason("my-app") != "IncompleteSecret" || !w.readyMessage("The key ca.crt of Secret my-cluster-cluster-ca-cert cannot be used") {
				t.Errorf("the status is %+v", w.status())
			}
			if w.readyMessage("PRIVATE KEY") {
				t.Error("the message has a key")
			}
		})
	}
}
