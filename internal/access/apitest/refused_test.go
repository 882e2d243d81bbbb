package apitest

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func listener(name string) func(access *accessv1alpha1.KafkaAccess) {
	return func(access *accessv1alpha1.KafkaAccess) { access.Spec.Kafka.Listener = name }
}

func noUserStatus(w *world) {
	user := &kafkav1.KafkaUser{}
	w.get("my-user", user)
	user.Status = kafkav1.KafkaUserStatus{}
	w.report(user)
}

func noKafkaStatus(w *world) {
	kafka := &kafkav1.Kafka{}
	w.get("my-cluster", kafka)
	kafka.Status = kafkav1.KafkaStatus{}
	w.report(kafka)
}

func creating(w *world) {
	kafka := &kafkav1.Kafka{}
	w.get("my-cluster", kafka)
	kafka.Status.Conditions = []condition.Condition{{Type: condition.NotReady, Status: condition.True, Reason: "Creating", LastTransitionTime: "2026-03-01T12:00:00Z"}}
	w.report(kafka)
}

func anotherCluster(w *world) {
	user := &kafkav1.KafkaUser{}
	w.update("my-user", user, func() { user.Labels["strimzi.io/cluster"] = "other" })
}

// custom asks for the listener with a certificate of its own, to which no user authenticates.
func custom(reference *accessv1alpha1.TruststoreReference) func(access *accessv1alpha1.KafkaAccess) {
	return func(access *accessv1alpha1.KafkaAccess) {
		access.Spec.User = nil
		access.Spec.Kafka.Listener, access.Spec.Kafka.TruststoreRef = "custom", reference
	}
}

func chainWithoutRoot(w *world) {
	_, chain := chainOf(w.t, "root")
	w.secret("chain", "", map[string]string{"crt": string(pki.EncodeBundle(chain[:len(chain)-1]...)), "key": "private"})
}

func damagedChain(w *world) {
	w.secret("chain", "", map[string]string{"crt": "no certificate", "key": "private"})
}

// chainOf is a root and a chain of a leaf, an intermediate CA and that root.
func chainOf(t *testing.T, name string) (root *x509.Certificate, chain []*x509.Certificate) {
	t.Helper()
	begun := time.Now() // the clock of some worlds is the real one
	upper, lower := pkitest.CA(t, name, begun), pkitest.CA(t, name+" intermediate", begun)
	intermediate := pkitest.Changed(t, upper, lower, func(*x509.Certificate) {})
	leaf := pkitest.CA(t, name+" leaf", begun)
	leafOfIt := pkitest.Changed(t, intermediate, leaf, func(*x509.Certificate) {})
	return upper.Certificate(), []*x509.Certificate{leafOfIt.Certificate(), intermediate.Certificate(), upper.Certificate()}
}

func noScramListener(w *world) {
	kafka := &kafkav1.Kafka{}
	w.update("my-cluster", kafka, func() { kafka.Spec.Kafka.Listeners = kafka.Spec.Kafka.Listeners[:2] })
}

func emptyCA(w *world) {
	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", "")
}

func TestBadInputHasAReasonAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		user   string
		before func(w *world)
		change func(access *accessv1alpha1.KafkaAccess)
		reason string
		names  string
	}{
		"no such Kafka":                            {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Name = "none" }, reason: "MissingKubernetesResource", names: "Kafka none"},
		"a name that none can have":                {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Name = "../none" }, reason: "MissingKubernetesResource", names: "Kafka ../none"},
		"no such user":                             {user: "nobody", reason: "MissingKubernetesResource", names: "KafkaUser nobody"},
		"no Secret of the user":                    {before: func(w *world) { w.delete("my-user", &corev1.Secret{}) }, reason: "MissingKubernetesResource", names: "Secret my-user"},
		"no cluster CA":                            {before: func(w *world) { w.delete("my-cluster-cluster-ca-cert", &corev1.Secret{}) }, reason: "MissingKubernetesResource", names: "Secret my-cluster-cluster-ca-cert"},
		"an empty cluster CA":                      {before: emptyCA, reason: "IncompleteSecret", names: "ca.crt"},
		"another kind of user":                     {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Kind = "Secret" }, reason: "InvalidUserKind", names: "spec.user.kind"},
		"another group":                            {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.APIGroup = "core" }, reason: "InvalidUserKind", names: "kafka.strimzi.io"},
		"a Kafka elsewhere":                        {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Namespace = "other" }, reason: "NamespaceNotAllowed", names: "keyturn.dev/access-from of that Kafka."},
		"a user elsewhere":                         {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Namespace = "other" }, reason: "NamespaceNotAllowed", names: "keyturn.dev/access-from of that KafkaUser."},
		"a user of another cluster":                {before: anotherCluster, reason: "UserOfAnotherCluster", names: "KafkaUser my-user"},
		"a Kafka that is not ready":                {before: noKafkaStatus, reason: "WaitingForKafka", names: "Kafka my-cluster"},
		"a Kafka that has never been ready":        {before: creating, reason: "WaitingForKafka", names: "Kafka my-cluster is being created"},
		"a user that is not ready":                 {before: noUserStatus, reason: "WaitingForUser", names: "KafkaUser my-user"},
		"no such listener":                         {change: listener("none"), reason: "ListenerNotFound", names: "custom, plain, scram, tls"},
		"another authentication":                   {change: listener("scram"), reason: "IncompatibleListener", names: "spec.kafka.listener: tls"},
		"no listener for the user":                 {user: "my-login", before: noScramListener, reason: "IncompatibleListener", names: "Add a listener with authentication scram-sha-512"},
		"a listener must be named":                 {user: "my-nobody", reason: "ListenerRequired", names: "spec.kafka.listener"},
		"no Secret of a certificate of its own":    {change: custom(nil), reason: "MissingKubernetesResource", names: "brokerCertChainAndKey"},
		"a certificate of its own without its CA":  {before: chainWithoutRoot, change: custom(nil), reason: "TrustUnknown", names: "Append the CA certificate that clients trust to the key crt of Secret chain"},
		"a certificate of its own that is damaged": {before: damagedChain, change: custom(nil), reason: "IncompleteSecret", names: "crt of Secret chain"},
		"no Secret with CAs":                       {change: custom(&accessv1alpha1.TruststoreReference{SecretName: "none", Key: "ca.crt"}), reason: "MissingKubernetesResource", names: "spec.kafka.truststoreRef"},
		"a key instead of CAs":                     {change: custom(&accessv1alpha1.TruststoreReference{SecretName: "my-user", Key: "user.key"}), reason: "IncompleteSecret", names: "user.key of Secret my-user"},
		"stores of what is no certificate":         {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.PKCS12 = new(true) }, reason: "IncompleteSecret", names: "spec.pkcs12"},
		"a name no Secret can have":                {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "My_App" }, reason: "InvalidSecret", names: "spec.secretName"},
		"a label that is none":                     {change: func(a *accessv1alpha1.KafkaAccess) { withTemplate(a, map[string]string{"team": "a b"}) }, reason: "InvalidSecret", names: "spec.template"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.user("my-nobody", "")
			if test.before != nil {
				test.before(w)
			}
			if test.user == "" {
				test.user = "my-user"
			}
			w.access(test.user, test.change)
			w.mustReconcile()
			condition := meta.FindStatusCondition(w.status().Conditions, "Ready")
			if condition.Reason != test.reason || condition.Status != "False" || !strings.Contains(condition.Message, test.names) {
				t.Errorf("the condition is %s %s: %s; want %s about %s", condition.Status, condition.Reason, condition.Message, test.reason, test.names)
			}
			if w.data("my-app") != nil || w.status().Binding != nil {
				t.Error("there is a Secret or a binding")
			}
			if !slices.Equal(w.events, []string{test.reason}) {
				t.Errorf("the events are %v", w.events)
			}
			w.faulty.Written = 0
			w.mustReconcile()
			if w.faulty.Written != 0 {
				t.Errorf("the operator still writes: %d times", w.faulty.Written)
			}
		})
	}
}

func TestAProblemLeavesSecretAndBindingAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	w.updateAccess(listener("scram"))
	w.mustReconcile()
	status := w.status()
	if reason := w.reason("my-app"); reason != "IncompatibleListener" || status.Binding == nil || status.Binding.Name != "my-app" || status.ObservedGeneration != 2 {
		t.Errorf("the status is %+v", status)
	}
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
}

func TestASecretOfOthersIsNeverTouched(t *testing.T) {
	t.Parallel()
	own := func(w *world) []metav1.OwnerReference {
		access := &accessv1alpha1.KafkaAccess{}
		w.get("my-app", access)
		return []metav1.OwnerReference{{APIVersion: "access.strimzi.io/v1alpha1", Kind: "KafkaAccess", Name: access.Name, UID: access.UID}}
	}
	label := map[string]string{"app.kubernetes.io/managed-by": "kafka-access-operator"}
	for name, test := range map[string]struct {
		make func(w *world) *corev1.Secret
		want string
	}{
		"a person's":                        {make: func(*world) *corev1.Secret { return &corev1.Secret{} }, want: "ForeignObject"},
		"of the same type":                  {make: func(*world) *corev1.Secret { return &corev1.Secret{Type: "servicebinding.io/kafka"} }, want: "ForeignObject"},
		"the public operator's for another": {make: func(*world) *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: label}} }, want: "MadeByAnother"},
		"the public operator's for the same": {make: func(w *world) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: label, OwnerReferences: own(w)}}
		}, want: "MadeByAnother"},
		"one that only says whose it is": {make: func(w *world) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: own(w)}}
		}, want: "ForeignObject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.access("my-user", nil)
			secret := test.make(w)
			secret.Name, secret.StringData = "my-app", map[string]string{"mine": "precious"}
			w.create(secret)
			w.mustReconcile()
			if reason := w.reason("my-app"); reason != test.want || w.status().Binding != nil {
				t.Errorf("the reason is %s, want %s", reason, test.want)
			}
			after := &corev1.Secret{}
			w.get("my-app", after)
			if after.ResourceVersion != secret.ResourceVersion {
				t.Error("it was written")
			}
		})
	}
}

func TestOfTwoWithOneSecretTheOlderHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.untilTheNextSecond()
	w.create(accessOf("my-other", "my-login", func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "my-app" }))
	for range 2 {
		if err := w.reconcileNamed("my-other"); err != nil {
			t.Fatal(err)
		}
		w.mustReconcile()
	}
	if first, second := w.reason("my-app"), w.reason("my-other"); first != "Bound" || second != "ForeignObject" {
		t.Errorf("the reasons are %s and %s", first, second)
	}
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
}

// A Secret that was created after it was looked for is not overwritten, although it has the type of an application's.
func TestASecretThatIsCreatedInBetweenIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.startWith(lateReader{Client: shared.operator, late: func() {
		w.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "my-app"}, Type: "servicebinding.io/kafka", StringData: map[string]string{"mine": "precious"},
		})
	}})
	if err := w.reconcile(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the error is %v, want that the Secret exists", err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "precious"}, w.data("my-app")); diff != "" {
		t.Errorf("a Secret of others differs (-want +got):\n%s", diff)
	}
	w.startOperator()
	w.mustReconcile()
	if reason := w.reason("my-app"); reason != "ForeignObject" {
		t.Errorf("the reason is %s", reason)
	}
}

// lateReader does something after the Secret my-app was not found.
type lateReader struct {
	client.Client

	late func()
}

func (r lateReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := r.Client.Get(ctx, key, into, options...)
	if _, is := into.(*corev1.Secret); is && key.Name == "my-app" && apierrors.IsNotFound(err) {
		r.late()
	}
	return err
}

func TestAConflictIsRetriedAndNotReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("second"))
	w.startWith(staleReader{Client: shared.operator, stale: func() { w.updateSecret("my-app", "mine", "in between") }})
	if err := w.reconcile(); !apierrors.IsConflict(err) {
		t.Errorf("the error is %v", err)
	}
	if reason := w.reason("my-app"); reason != "Bound" {
		t.Errorf("the reason is %s", reason)
	}
	w.startOperator()
	w.mustReconcile()
	if data := w.data("my-app"); data["ssl.truststore.crt"] != caOf("second") || data["mine"] != "in between" {
		t.Errorf("the Secret holds %v", data)
	}
}

// staleReader does something after the Secret my-app was read.
type staleReader struct {
	client.Client

	stale func()
}

func (r staleReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := r.Client.Get(ctx, key, into, options...)
	if _, is := into.(*corev1.Secret); is && key.Name == "my-app" {
		r.stale()
	}
	return err
}

func TestAMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	installed := &rbacv1.ClusterRole{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Name: "keyturn-access-operator"}, installed); err != nil {
		t.Fatal(err)
	}
	rules := slices.DeleteFunc(installed.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "secrets") })
	limited, err := client.New(grant(t, w.person, "limited-"+w.namespace, rules), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.startWith(limited)
	if err := w.reconcile(); !apierrors.IsForbidden(err) {
		t.Errorf("it is not retried: %v", err)
	}
	condition := meta.FindStatusCondition(w.status().Conditions, "Ready")
	if want := "the verb get on secrets in namespace " + w.namespace; condition.Reason != "Forbidden" || !strings.Contains(condition.Message, want) {
		t.Errorf("the condition is %s: %s", condition.Reason, condition.Message)
	}
}

func TestCredentialsThatAreNotAcceptedAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.startWith(strangerReader{shared.operator})
	if err := w.reconcile(); !apierrors.IsUnauthorized(err) {
		t.Errorf("it is not retried: %v", err)
	}
	if reason := w.reason("my-app"); reason != "Unauthorized" {
		t.Errorf("the reason is %s", reason)
	}
}

// strangerReader is not known to the API server when it asks for a Kafka.
type strangerReader struct{ client.Client }

func (r strangerReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, is := into.(*kafkav1.Kafka); is {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	return r.Client.Get(ctx, key, into, options...)
}

func TestAKafkaAccessThatIsGoneIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustReconcile()
	if w.faulty.Written != 0 {
		t.Errorf("it is written %d times", w.faulty.Written)
	}
}
