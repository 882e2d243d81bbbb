package agent_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
)

// TestKafkaFulfilsTheContractOfTopicsClients holds single servers to what tests of the topic operator take for granted.
func TestKafkaFulfilsTheContractOfTopicsClients(t *testing.T) {
	for version, network := range eachVersion("127.90") {
		t.Run("Kafka "+version, func(t *testing.T) {
			c := agenttest.Start(t, agenttest.ClusterSpec{
				KafkaHome: agenttest.KafkaHome(t, version), Network: network, Nodes: [][]string{dual()},
				JavaOptions: []string{"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC"},
			})
			admintest.RunTopics(t, func(t *testing.T) admintest.TopicsSubject { t.Helper(); return c.TopicsSubject(t) })
		})
	}
}
