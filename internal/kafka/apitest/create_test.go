package apitest

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// dualRole is a cluster of nodes that are controllers and brokers. Small ECDSA keys
// keep the tests fast.
func (w *world) dualRole(replicas int32) {
	w.t.Helper()
	w.create(kafkaOf(w.namespace, replicas), poolResource(w.namespace, "dual", replicas, kafkav1.RoleController, kafkav1.RoleBroker))
}

// kafkaOf is a Kafka that as many brokers can serve.
func kafkaOf(namespace string, brokers int32) *kafkav1.Kafka {
	kafka := kafkaResource(namespace)
	if brokers >= 3 {
		return kafka
	}
	copies := kafkav1.ConfigValue(fmt.Sprint(brokers))
	for _, key := range []string{"default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"} {
		kafka.Spec.Kafka.Config[key] = copies
	}
	kafka.Spec.Kafka.Config["min.insync.replicas"] = "1"
	return kafka
}

func kafkaResource(namespace string) *kafkav1.Kafka {
	ca := kafkav1.CertificateAuthority{KeyAlgorithm: kafkav1.ECDSA, KeySize: new(int32(256))}
	return &kafkav1.Kafka{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName, Namespace: namespace},
		Spec: kafkav1.KafkaSpec{
			Kafka: kafkav1.KafkaClusterSpec{
				Listeners: []kafkav1.Listener{
					{Name: "tls", Port: 9093, Type: "internal", TLS: true},
					{Name: "mtls", Port: 9094, Type: "internal", TLS: true, Authentication: &kafkav1.ListenerAuthentication{Type: "tls"}},
				},
				Config: map[string]kafkav1.ConfigValue{"default.replication.factor": "3", "min.insync.replicas": "2"},
			},
			ClusterCa: &ca, ClientsCa: ca.DeepCopy(),
		},
	}
}

func poolResource(namespace, name string, replicas int32, roles ...kafkav1.ProcessRole) *kafkav1.KafkaNodePool {
	return &kafkav1.KafkaNodePool{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName},
		},
		Spec: kafkav1.KafkaNodePoolSpec{
			Replicas: replicas, Roles: roles,
			Storage: kafkav1.Storage{Type: kafkav1.StorageEphemeral},
		},
	}
}

func TestANewClusterBecomesReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)

	w.settle()

	kafka := w.getKafka()
	if !has(kafka, condition.Ready) || has(kafka, condition.NotReady) {
		t.Errorf("conditions are %+v, want Ready", kafka.Status.Conditions)
	}
	if kafka.Status.ClusterId == "" || kafka.Status.KafkaVersion != "4.3.1" || kafka.Status.KafkaMetadataVersion != "4.3-IV0" {
		t.Errorf("status is %+v", kafka.Status)
	}
	for _, name := range []string{"my-dual-0", "my-dual-1", "my-dual-2"} {
		var pod corev1.Pod
		w.get(name, &pod)
	}
}

func TestASecondReconciliationWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	before := w.faulty.Written
	for range 3 {
		if _, err := w.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	if after := w.faulty.Written; after != before {
		t.Errorf("%d writes in the steady state, want none", after-before)
	}
}
