package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

func TestEachObjectHasTheLabelsAndAnnotationsOfItsKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.realCluster()
	w.access("my-user", nil)
	w.mustReconcile()
	w.proposedAccess("barista-kafka", "my-user", func(*kafkav1beta2.KafkaAccess) {})
	w.mustReconcileProposed("barista-kafka")

	ofKafka := map[string]string{"strimzi.io/cluster": "my-cluster"}
	managed := func(by string) map[string]string {
		return map[string]string{"app.kubernetes.io/managed-by": by, "strimzi.io/cluster": "my-cluster"}
	}
	written := kubetest.Marks{
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "kafka-access-operator"},
		Annotations: map[string]string{"keyturn.dev/source": kubetest.Any},
	}
	kubetest.CheckMarks(t, apiServer, w.namespace, map[string]kubetest.Marks{
		"Kafka my-cluster":                  {},
		"KafkaUser my-user":                 {Labels: ofKafka},
		"KafkaUser my-login":                {Labels: ofKafka},
		"KafkaAccess my-app":                {},
		"KafkaAccess barista-kafka":         {},
		"Secret my-cluster-cluster-ca-cert": {Labels: managed("strimzi-cluster-operator")},
		"Secret my-user":                    {Labels: managed("strimzi-user-operator")},
		"Secret my-login":                   {Labels: managed("strimzi-user-operator")},
		"Secret my-app":                     written,
		"Secret barista-kafka":              written,
	})
	for _, name := range []string{"my-app", "barista-kafka"} {
		secret := &corev1.Secret{}
		if w.get(name, secret); secret.Type != "servicebinding.io/kafka" {
			t.Errorf("Secret %s has the type %s", name, secret.Type)
		}
	}
}
