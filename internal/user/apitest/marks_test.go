package apitest

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// userLabels are those of the Secret of a user that has the label team.
func userLabels(name string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": "strimzi-user-operator",
		"app.kubernetes.io/name": "strimzi-user-operator", "app.kubernetes.io/part-of": "strimzi-" + name,
		"strimzi.io/cluster": cluster, "strimzi.io/kind": "KafkaUser", "team": "checkout",
	}
}

// beforeUsers are the rows of what a world has before any user.
func beforeUsers(secrets ...string) map[string]kubetest.Marks {
	ofCluster := map[string]string{"strimzi.io/cluster": cluster, "strimzi.io/kind": "Kafka"}
	rows := map[string]kubetest.Marks{"Kafka " + cluster: {}}
	for _, name := range secrets {
		rows["Secret "+name] = kubetest.Marks{Labels: ofCluster}
	}
	return rows
}

func userMarks(name string) map[string]kubetest.Marks {
	return map[string]kubetest.Marks{
		"KafkaUser " + name: {Labels: map[string]string{"strimzi.io/cluster": cluster, "team": "checkout"}},
		"Secret " + name:    {Labels: userLabels(name)},
	}
}

func TestEachObjectHasTheLabelsAndAnnotationsOfItsKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.user("bob", kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kafkav1.UserSCRAM}})
	w.reconcile("alice")
	w.reconcile("bob")
	rows := beforeUsers("my-cluster-clients-ca", "my-cluster-clients-ca-cert")
	maps.Copy(rows, userMarks("alice"))
	maps.Copy(rows, userMarks("bob"))
	kubetest.CheckMarks(t, apiServer, w.namespace, rows)
}

func TestASecretThatAnIssuerFillsHasTheLabelsOfItsUser(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	rows := beforeUsers("my-cluster-clients-ca-cert", "my-cluster-clients-ca-trusted-certs")
	maps.Copy(rows, userMarks("alice"))
	filled := rows["Secret alice"]
	filled.Annotations = map[string]string{"cert-manager.io/certificate-name": "alice"}
	rows["Secret alice"] = filled
	kubetest.CheckMarks(t, apiServer, w.namespace, rows)
	if diff := cmp.Diff(userLabels("alice"), w.elsewhere.asked.Labels); diff != "" {
		t.Errorf("labels of what is asked for differ (-want +got):\n%s", diff)
	}
}
