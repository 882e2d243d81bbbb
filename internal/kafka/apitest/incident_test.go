package apitest

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// What gets in the way of a rotation.

func TestTheOperatorsLostCertificateIsMadeAtOnceInTheMiddleToo(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.lag["my-dual-1"] = 2
	w.replace(authorities.Cluster)
	w.once(w.trusts(1, nextV), func() { w.delete(&corev1.Secret{}, "my-cluster-operator-certs") })
	w.settle()

	w.wantRemainder(firstV, nextV)
	if operator := w.first(w.secret("my-cluster-operator-certs").Data["cluster-operator.crt"]); operator.Issuer.CommonName != nextV {
		t.Errorf("in the end the operator presents %s", operator.Issuer.CommonName)
	}
}

func TestAPodThatTakesLongToEndStillCounts(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	var pod corev1.Pod
	w.get("my-dual-1", &pod)
	if err := w.api.Delete(t.Context(), &pod, client.GracePeriodSeconds(600)); err != nil {
		t.Fatal(err)
	}
	w.lag["my-dual-1"] = stopped

	w.replace(authorities.Cluster)
	w.run(8)

	if state := w.anchors(authorities.Cluster)[firstV]; state != trust.InUseAny {
		t.Errorf("the old anchor is %s, and a pod that ends presents its leaf", state)
	}

	delete(w.lag, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
}

func TestALostNodeSecretComesBackInTheMiddle(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.lag["my-dual-1"] = 1
	w.replace(authorities.Cluster)
	w.once(w.presents(1, nextV), func() { w.delete(&corev1.Secret{}, "my-dual-0") })
	w.settle()

	w.wantRemainder(firstV, nextV)
	w.wantRestarts(0)
}

func TestARenewedClientsAuthorityIsLoadedAndOldUsersAreServed(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	before := w.caCertificate(authorities.Clients)

	w.renew(authorities.Clients)
	w.settle()

	after := w.caCertificate(authorities.Clients)
	if after.Equal(before) || pki.KeyIDOf(after) != pki.KeyIDOf(before) {
		t.Error("want another certificate of the same key")
	}
	for _, s := range w.servers {
		if !slices.ContainsFunc(s.loaded["mtls-9094"].trust, after.Equal) {
			t.Errorf("%s does not trust the renewed clients CA", s.pod)
		}
	}
	w.wantRestarts(0)
}

func TestARenewalByTimeWaitsForTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.MaintenanceTimeWindows = []string{closedWindow}
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	w.pin()
	before := w.caCertificate(authorities.Cluster)

	w.clock.SetTime(nearTheEnd())
	w.settle()
	if !w.caCertificate(authorities.Cluster).Equal(before) {
		t.Error("the CA was renewed outside of the window")
	}

	w.clock.SetTime(nearTheEnd().Add(11 * time.Hour))
	w.settle()

	after := w.caCertificate(authorities.Cluster)
	if after.Equal(before) || pki.KeyIDOf(after) != pki.KeyIDOf(before) {
		t.Error("want another certificate of the same key")
	}
	w.wantLoaded(after)
}

func TestAnExpiringKeyIsReplacedWhenThatIsThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClusterCa.CertificateExpirationPolicy = "replace-key"
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	w.pin()

	w.clock.SetTime(nearTheEnd())
	w.settle()

	if !slices.Contains(w.bundleOf(authorities.Cluster), nextV) {
		t.Errorf("ca.crt holds %v, want the new CA among them", w.bundleOf(authorities.Cluster))
	}
	w.wantRoles(" replication-9091", "presents "+nextV+" cross-signed by "+firstV+", trusts "+nextV)
}

func TestAClusterIsHandedBackWithoutATraceOfReloads(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.settle()

	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.run(3)
	w.restartEach()

	for name := range w.podUIDs() {
		var pod corev1.Pod
		w.get(name, &pod)
		if got := pod.Annotations[authorities.ClusterKeyGenerationAnnotation]; got != "1" {
			t.Errorf("pod %s tells the key generation %q, want the present one", name, got)
		}
		if left := w.persisted[name]; len(left) > 0 {
			t.Errorf("node %s has settings of reloads in the metadata: %v", name, left)
		}
	}
}

// What is missing there cannot be made again, and nobody is told of errors.
func TestANamespaceThatIsBeingDeletedIsLeftInPeace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-dual-0"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-dual-1"}},
	} {
		if err := w.api.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	w.run(5)

	for name, object := range map[string]client.Object{"my-dual-0": &corev1.ConfigMap{}, "my-dual-1": &corev1.Pod{}} {
		if !w.missing(object, name) {
			t.Errorf("%T %s was made again", object, name)
		}
	}
}
