package agent_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
)

// TestKafkaFulfilsTheContractOfUsersClients holds single servers to what tests of the user operator take for granted.
func TestKafkaFulfilsTheContractOfUsersClients(t *testing.T) {
	for network, version := range map[string]string{"127.83.42": newest, "127.83.43": previous} {
		t.Run(version, func(t *testing.T) {
			c := agenttest.Start(t, agenttest.ClusterSpec{
				KafkaHome: agenttest.KafkaHome(t, version), Network: network, Nodes: [][]string{dual()},
				JavaOptions: []string{"-Xms64m", "-Xmx256m", "-XX:+UseSerialGC"},
			})
			admintest.RunUsers(t, func(t *testing.T) admintest.UsersSubject { t.Helper(); return c.UsersSubject(t) })
		})
	}
}
