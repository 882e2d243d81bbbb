package apitest

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
)

// neighbour is another cluster in the namespace, with certificates of the same issuer.
const neighbour = "our"

// asksNeighbour has the operator look at the neighbour.
func (w *world) asksNeighbour(times int) {
	w.t.Helper()
	for range times {
		if _, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key(neighbour)}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestTwoClustersInANamespaceHaveCertificatesOfOneIssuer(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	before := map[string][]byte{}
	for _, name := range slices.Collect(maps.Keys(w.elsewhere.issued)) {
		before[name] = w.secret(name).Data[certificateEntry(name)]
	}

	var kafka kafkav1.Kafka
	w.get(clusterName, &kafka)
	second := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: neighbour}, Spec: kafka.Spec}
	pool := poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker)
	pool.Name, pool.Labels["strimzi.io/cluster"] = "ours", neighbour
	w.create(second, pool)
	w.asksNeighbour(4)
	w.run(4)
	w.asksNeighbour(1)
	w.scale("ours", 1) // what was asked for its other nodes is withdrawn
	w.asksNeighbour(2)
	w.settle()

	for _, name := range []string{"our-cluster-operator-certs", "our-ours-0"} {
		if leaf := w.first(w.secret(name).Data[certificateEntry(name)]); leaf.Issuer.CommonName != ca.Certificate().Subject.CommonName {
			t.Errorf("Secret %s of the neighbour has a certificate of %q", name, leaf.Issuer)
		}
	}
	for name, certificate := range before {
		if now := w.secret(name).Data[certificateEntry(name)]; !bytes.Equal(now, certificate) {
			t.Errorf("the certificate in Secret %s was replaced", name)
		}
		if _, asked := w.elsewhere.issued[name]; !asked {
			t.Errorf("what was asked for %s was withdrawn", name)
		}
	}
	w.wantMoved(issuersOne, 0)
}

// certificateEntry is the entry of a Secret of a node or an operator that has its certificate.
func certificateEntry(secret string) string {
	if strings.HasSuffix(secret, "-operator-certs") {
		return "cluster-operator.crt"
	}
	return secret + ".crt"
}

// The names of a user, and of what is made for it, are those that the operator has in its own certificate.
func TestAUserWithTheNameOfTheOperatorDisturbsNoClusterOfAnIssuer(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	labels := map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/kind": "KafkaUser"}
	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-operator", Namespace: w.namespace, Labels: labels},
		Data:       map[string][]byte{"user.crt": []byte("certificate"), "user.key": []byte("key"), authority.CertKey: []byte("ca")},
	}
	w.create(credentials)
	before := w.secret("cluster-operator").ResourceVersion

	w.elsewhere.renew()
	w.settle()

	w.wantLeavesOf(ca)
	w.wantMoved(issuersOne, 0)
	if after := w.secret("cluster-operator").ResourceVersion; after != before {
		t.Error("the Secret of the user was written")
	}
	if slices.Contains(w.elsewhere.kept, "cluster-operator") {
		t.Errorf("what is asked for the user counts as the cluster's: %v", w.elsewhere.kept)
	}
}
