package apitest

import (
	"crypto/x509"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// proposedAccess creates a KafkaAccess of kafka.strimzi.io.
func (w *world) proposedAccess(name, user string, change func(access *kafkav1beta2.KafkaAccess)) {
	w.t.Helper()
	access := &kafkav1beta2.KafkaAccess{ObjectMeta: metav1.ObjectMeta{Name: name}}
	access.Spec.Kafka.Name = "my-cluster"
	if user != "" {
		access.Spec.User = &kafkav1beta2.UserReference{Kind: "KafkaUser", Name: user}
	}
	if change != nil {
		change(access)
	}
	w.create(access)
}

func (w *world) mustReconcileProposed(name string) kafkav1beta2.KafkaAccess {
	w.t.Helper()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}}
	if _, err := w.proposed.Reconcile(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
	access := kafkav1beta2.KafkaAccess{}
	w.get(name, &access)
	return access
}

// realCluster is cluster with certificates that can be read. It returns the CA and the identity of my-user.
func (w *world) realCluster() (ca *x509.Certificate, user pki.Authority) {
	w.t.Helper()
	w.cluster()
	ca, user = pkitest.CA(w.t, "cluster-ca", now()).Certificate(), pkitest.CA(w.t, "my-user", now())
	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", string(pki.EncodeBundle(ca)))
	secret := &corev1.Secret{}
	w.update("my-user", secret, func() {
		secret.Data["user.crt"], secret.Data["user.key"] = pki.EncodeBundle(user.Certificate()), user.Key().PEM()
	})
	return ca, user
}

func TestTheProposedFormGetsTheKeysOfTheProposal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca, user := w.realCluster()
	w.proposedAccess("barista-kafka", "my-user", func(a *kafkav1beta2.KafkaAccess) {
		a.Spec.Kafka.APIVersion, a.Spec.Kafka.Namespace = kafkav1beta2.GroupVersion.String(), w.namespace
		a.Spec.Kafka.Listener = &kafkav1beta2.ListenerReference{Name: "tls"}
		a.Spec.User.APIVersion, a.Spec.User.Namespace = kafkav1beta2.GroupVersion.String(), w.namespace
	})
	access := w.mustReconcileProposed("barista-kafka")
	if access.Status.Binding == nil || access.Status.Binding.Name != "barista-kafka" || !meta.IsStatusConditionTrue(access.Status.Conditions, "Ready") {
		t.Errorf("the status is %+v", access.Status)
	}
	want := []string{
		"bootstrap.servers", "provider", "security.protocol", "ssl.keystore.crt", "ssl.keystore.key", "ssl.keystore.p12", "ssl.keystore.password",
		"ssl.truststore.crt", "ssl.truststore.p12", "ssl.truststore.password", "type",
	}
	data := w.data("barista-kafka")
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(data))); diff != "" {
		t.Errorf("keys differ (-want +got):\n%s", diff)
	}
	if !pki.KeyStoreHolds([]byte(data["ssl.keystore.p12"]), data["ssl.keystore.password"], user.Key(), []*x509.Certificate{user.Certificate()}) {
		t.Error("the keystore does not hold the user")
	}
	if !pki.TrustStoreHolds([]byte(data["ssl.truststore.p12"]), data["ssl.truststore.password"], []pki.TrustEntry{{Certificate: ca}}) {
		t.Error("the truststore does not hold the cluster CA")
	}
	secret := &corev1.Secret{}
	w.get("barista-kafka", secret)
	if owner := secret.OwnerReferences; len(owner) != 1 || owner[0].UID != access.UID || owner[0].APIVersion != "kafka.strimzi.io/v1beta2" {
		t.Errorf("the Secret is owned by %v", owner)
	}
	for range 2 {
		w.faulty.Written = 0
		w.mustReconcileProposed("barista-kafka")
		if w.faulty.Written != 0 {
			t.Errorf("the operator writes %d times although nothing has changed", w.faulty.Written)
		}
		w.startOperator()
	}
}

func TestThePasswordsOfStoresStayThroughARotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca, _ := w.realCluster()
	w.access("my-user", func(a *accessv1alpha1.KafkaAccess) { a.Spec.PKCS12 = new(true) })
	w.mustReconcile()
	before := w.data("my-app")
	next := pkitest.CA(t, "next-ca", now()).Certificate()
	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", string(pki.EncodeBundle(ca, next)))
	w.mustReconcile()
	after := w.data("my-app")
	want := maps.Clone(before)
	want["ssl.truststore.crt"], want["ssl.truststore.p12"] = string(pki.EncodeBundle(ca, next)), after["ssl.truststore.p12"]
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
	if !pki.TrustStoreHolds([]byte(after["ssl.truststore.p12"]), before["ssl.truststore.password"], []pki.TrustEntry{{Certificate: ca}, {Certificate: next}}) {
		t.Error("the truststore does not hold both CAs under the password of before")
	}
}

// Nodes present certificates of the previous CA until all of them trust the new one.
func TestAnOwnClusterCAThatIsReplacedStaysTrustedUnderItsDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, _ := w.realCluster()
	w.access("my-user", func(a *accessv1alpha1.KafkaAccess) { a.Spec.PKCS12 = new(true) })
	w.mustReconcile()
	next := authorities["second"].Certificate()
	secret := &corev1.Secret{}
	w.update("my-cluster-cluster-ca-cert", secret, func() {
		secret.Data["ca.crt"] = pki.EncodeBundle(next)
		secret.Data["ca-2024-11-13T22-13-20Z.crt"] = pki.EncodeBundle(old)
		secret.Data["ca-2022-11-14T22-13-20Z.crt"] = []byte(caOf("expired"))
	})
	w.mustReconcile()
	w.trusts(next, old)
	w.update("my-cluster-cluster-ca-cert", secret, func() { delete(secret.Data, "ca-2024-11-13T22-13-20Z.crt") })
	w.mustReconcile()
	w.trusts(next)
}

// trusts fails unless both forms of the truststore hold these CAs.
func (w *world) trusts(cas ...*x509.Certificate) {
	w.t.Helper()
	data := w.data("my-app")
	if data["ssl.truststore.crt"] != string(pki.EncodeBundle(cas...)) {
		w.t.Errorf("the CAs are %q (%s)", data["ssl.truststore.crt"], w.reason("my-app"))
	}
	entries := make([]pki.TrustEntry, 0, len(cas))
	for _, ca := range cas {
		entries = append(entries, pki.TrustEntry{Certificate: ca})
	}
	if !pki.TrustStoreHolds([]byte(data["ssl.truststore.p12"]), data["ssl.truststore.password"], entries) {
		w.t.Error("the truststore holds others")
	}
}

func TestPKCS12DecidesWhichKeysAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.realCluster()
	w.access("my-user", nil)
	w.proposedAccess("my-other", "my-user", func(a *kafkav1beta2.KafkaAccess) { a.Spec.PKCS12 = new(false) })
	w.mustReconcile()
	w.mustReconcileProposed("my-other")
	if diff := cmp.Diff(w.data("my-app"), w.data("my-other")); diff != "" {
		t.Errorf("without PKCS#12 the forms differ (-public +proposed):\n%s", diff)
	}
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.PKCS12 = new(true) })
	other := &kafkav1beta2.KafkaAccess{}
	w.update("my-other", other, func() { other.Spec.PKCS12 = nil })
	w.mustReconcile()
	w.mustReconcileProposed("my-other")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(w.data("my-app"))), slices.Sorted(maps.Keys(w.data("my-other")))); diff != "" {
		t.Errorf("with PKCS#12 the forms differ (-public +proposed):\n%s", diff)
	}
}

func TestAListenerWithACertificateOfItsOwnGetsItsCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	root, chain := chainOf(t, "root")
	w.secret("chain", "", map[string]string{"crt": string(pki.EncodeBundle(chain...)), "key": "private"})
	w.access("", custom(nil))
	w.mustReconcile()
	if got := w.data("my-app")["ssl.truststore.crt"]; got != string(pki.EncodeBundle(root)) {
		t.Errorf("the CAs are %q (%s)", got, w.reason("my-app"))
	}
	w.updateSecret("chain", "crt", string(pki.EncodeBundle(chain[:2]...)))
	w.mustReconcile()
	if got := w.data("my-app")["ssl.truststore.crt"]; got != string(pki.EncodeBundle(root)) || w.reason("my-app") != "TrustUnknown" {
		t.Errorf("without a root the CAs are %q (%s)", got, w.reason("my-app"))
	}
	next, _ := chainOf(t, "next")
	w.secret("my-root", "", map[string]string{"ca.crt": string(pki.EncodeBundle(root, next))})
	w.updateAccess(custom(&accessv1alpha1.TruststoreReference{SecretName: "my-root", Key: "ca.crt"}))
	w.mustReconcile()
	if got := w.data("my-app")["ssl.truststore.crt"]; got != string(pki.EncodeBundle(root, next)) || w.reason("my-app") != "Bound" {
		t.Errorf("with a reference the CAs are %q (%s)", got, w.reason("my-app"))
	}
	w.updateAccess(custom(&accessv1alpha1.TruststoreReference{System: true}))
	w.mustReconcile()
	for _, key := range []string{"ssl.truststore.crt", "ssl.truststore.p12", "ssl.truststore.password"} {
		if value, there := w.data("my-app")[key]; there {
			t.Errorf("where the system trusts the CA, %s is %q", key, value)
		}
	}
}

// Kubernetes has a name once for each kind, and a Secret has one kind.
func TestOfBothFormsWithOneSecretTheOlderHasIt(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]bool{"before either is looked at": false, "after the younger has it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.realCluster()
			w.access("my-user", func(a *accessv1alpha1.KafkaAccess) {
				if hold {
					a.Spec.SecretName = "elsewhere"
				}
			})
			w.untilTheNextSecond()
			w.proposedAccess("my-app", "my-user", nil)
			first := w.mustReconcileProposed("my-app")
			if hold {
				w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "" })
			}
			w.mustReconcile()
			second := w.mustReconcileProposed("my-app")
			younger := meta.FindStatusCondition(second.Status.Conditions, "Ready")
			want, elders := "ForeignObject", "Bound"
			if hold {
				want, elders = elders, want
			}
			if younger.Reason != want || w.reason("my-app") != elders || !meta.IsStatusConditionPresentAndEqual(first.Status.Conditions, "Ready", younger.Status) {
				t.Errorf("the older one is %s, the younger %s: %s", w.reason("my-app"), younger.Reason, younger.Message)
			}
			if _, ofYounger := w.data("my-app")["ssl.keystore.p12"]; ofYounger != hold {
				t.Errorf("the Secret is the younger one's: %t", ofYounger)
			}
		})
	}
}

// untilTheNextSecond waits until objects that are created are younger than those before: ages are in seconds.
func (w *world) untilTheNextSecond() {
	w.t.Helper()
	access := &accessv1alpha1.KafkaAccess{}
	w.get("my-app", access)
	w.await("a second has passed", func() bool {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
		w.create(probe)
		return probe.CreationTimestamp.After(access.CreationTimestamp.Time)
	})
}

func TestAProposedKafkaAccessHasAReasonForBadInput(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(access *kafkav1beta2.KafkaAccess)
		reason string
	}{
		"no such listener": {change: func(a *kafkav1beta2.KafkaAccess) {
			a.Spec.Kafka.Listener = &kafkav1beta2.ListenerReference{Name: "none"}
		}, reason: "ListenerNotFound"},
		"another kind":    {change: func(a *kafkav1beta2.KafkaAccess) { a.Spec.User.Kind = "Secret" }, reason: "InvalidUserKind"},
		"no certificates": {reason: "IncompleteSecret"},
		"a listener of others": {change: func(a *kafkav1beta2.KafkaAccess) {
			a.Spec.Kafka.Listener = &kafkav1beta2.ListenerReference{Name: "scram"}
		}, reason: "IncompatibleListener"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.user("my-own", kafkav1.UserTLSExternal)
			w.proposedAccess("my-app", "my-user", test.change)
			access := w.mustReconcileProposed("my-app")
			condition := meta.FindStatusCondition(access.Status.Conditions, "Ready")
			if condition.Reason != test.reason || condition.Status != "False" || w.data("my-app") != nil || access.Status.Binding != nil {
				t.Errorf("the condition is %s %s: %s, want %s", condition.Status, condition.Reason, condition.Message, test.reason)
			}
		})
	}
}
