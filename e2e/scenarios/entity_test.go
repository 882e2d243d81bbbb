package scenarios

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// besideTheNodes: the Kafka asks for a user operator, which runs beside the nodes with a certificate of its own. It
// serves users before, during and after the replacement of the cluster CA's key, in the same container.
func besideTheNodes(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.must(manifest.Set("Kafka", clusterName, map[string]any{"userOperator": map[string]any{}}, "spec", "entityOperator"))
	s.create(manifest)
	s.createTopics(allowedTopic)
	s.servesUser("with-certificate", "mtls", kafkav1.UserTLS)
	s.servesUser("with-password", "scram", kafkav1.UserSCRAM)
	before := s.operatorPod()

	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	r.until(authorities.RaftRestartsPending)
	r.compare()
	r.notRestarted()

	after := s.operatorPod()
	if before.UID != after.UID || restarts(after) > 0 {
		s.Errorf("the user operator was restarted: pod %s became %s, with %d restarts", before.Name, after.Name, restarts(after))
	}
	s.servesUser("afterwards", "scram", kafkav1.UserSCRAM)
}

// servesUser creates a user, waits until it is ready, and sends and receives as that user.
func (s *stage) servesUser(name, listener string, kind kafkav1.UserAuthenticationType) {
	s.Helper()
	user := &kafkav1.KafkaUser{ObjectMeta: s.meta(name), Spec: kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kind}}}
	user.Labels = map[string]string{harness.ClusterLabel: clusterName}
	s.must(s.kube.Create(s.ctx, user))
	s.step("user "+name+" is ready", func() error { return s.untilObject(&kafkav1.KafkaUserList{}, name, userReady) })
	client, err := s.kafka.UserClient(s.ctx, name, listener)
	s.must(err)
	s.Cleanup(client.Close)
	s.step("user "+name+" sends and receives", func() error { return s.isAllowed(client) })
}

func restarts(pod *corev1.Pod) int32 {
	var count int32
	for status := range slices.Values(pod.Status.ContainerStatuses) {
		count += status.RestartCount
	}
	return count
}
