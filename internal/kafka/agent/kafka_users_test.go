package agent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
)

// TestKafkaFulfilsTheContractOfUsersClients holds single servers to what tests of the user operator take for granted.
func TestKafkaFulfilsTheContractOfUsersClients(t *testing.T) {
	for version, network := range eachVersion("127.85") {
		t.Run("Kafka "+version, func(t *testing.T) {
			c := agenttest.Start(t, agenttest.ClusterSpec{
				KafkaHome: agenttest.KafkaHome(t, version), Network: network, Nodes: [][]string{dual()},
				JavaOptions: []string{"-Xms64m", "-Xmx256m", "-XX:+UseSerialGC"},
			})
			admintest.RunUsers(t, func(t *testing.T) admintest.UsersSubject { t.Helper(); return c.UsersSubject(t) })
			t.Run("a server that starts has the passwords of all users but those that were revoked", func(t *testing.T) { passwordsOutlive(t, c) })
		})
	}
}

// passwordsOutlive restarts a server of which passwords were revoked: had they been deleted, it would have none.
func passwordsOutlive(t *testing.T, c *agenttest.Cluster) {
	t.Helper()
	before, err := c.Admin(t).DescribeUsers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(c.Nodes[0].Stop())
	c.Nodes[0].Start(t)
	c.AwaitReady(t, c.Nodes[0])
	after, err := c.Admin(t).DescribeUsers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("what the server holds for users (-before +after):\n%s", diff)
	}
}
