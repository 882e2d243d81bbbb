package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// TestKafkaFulfilsTheContractOfAdminClients holds real clusters to what tests of the operator
// take for granted.
func TestKafkaFulfilsTheContractOfAdminClients(t *testing.T) {
	t.Parallel()
	for version, network := range eachVersion("127.86") {
		t.Run("Kafka "+version, func(t *testing.T) {
			t.Parallel()
			c := agenttest.Start(t, agenttest.ClusterSpec{
				KafkaHome: agenttest.KafkaHome(t, version), Network: network, Nodes: [][]string{dual(), dual(), dual()},
			})
			hidesFenced := release.Compare(version, "4.0.0") < 0
			admintest.Run(t, func(t *testing.T) admintest.Subject { t.Helper(); return c.Subject(t) })
			t.Run("all partitions are listed, on however many pages", func(t *testing.T) { longListIsComplete(t, c) })
			admintest.RunOutage(t, func(t *testing.T) admintest.Outage {
				t.Helper()
				outage := c.Outage(t)
				outage.HidesFenced = hidesFenced
				return outage
			})
		})
	}
}

// longListIsComplete makes two topics of which the first ends on the third page.
func longListIsComplete(t *testing.T, c *agenttest.Cluster) {
	t.Helper()
	s := c.Subject(t)
	sizes := map[string]int{"long-a": 600, "long-b": 3}
	for name, partitions := range sizes {
		if err := s.CreateTopic(t.Context(), name, partitions, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		partitions, err := s.Client.Partitions(ctx)
		missing := missingOf(sizes, partitions)
		if err == nil && len(missing) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v are missing; last error: %v", missing, err)
		case <-tick.C:
		}
	}
}

func missingOf(sizes map[string]int, partitions []admin.Partition) []string {
	var missing []string
	for name, size := range sizes {
		numbers := []int32{}
		for _, p := range partitions {
			if p.Topic == name {
				numbers = append(numbers, p.Partition)
			}
		}
		for number := range int32(size) {
			if !slices.Contains(numbers, number) {
				missing = append(missing, fmt.Sprintf("%s-%d", name, number))
			}
		}
	}
	return missing
}
