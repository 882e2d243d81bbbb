package scenarios

import (
	"slices"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// brokersAddedWhileNobodyVouches loses the key of the cluster CA and asks for brokers
// while the others learn to trust the next one. Nobody can sign what the others accept
// already, so that the new ones wait; nobody waits for them.
func brokersAddedWhileNobodyVouches(s *stage) {
	manifest := withExtraPool(s, s.example("kafka-dual-role.yaml"))
	s.must(small(manifest))
	s.create(manifest)
	s.restarts = true
	added := nodes(extraPool, 3, 4)
	r := s.turning(harness.ClusterCA, attentive())
	r.asks("the Secret with the key of the cluster CA deleted", func() error { return s.kafka.LoseKey(s.ctx, harness.ClusterCA) })
	s.step("brokers asked for; it is named who waits", func() error {
		if err := r.untilChange(string(trust.Untrusted)); err != nil {
			return err
		}
		if err := setReplicas(s, len(added)); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "names who waits", func(kafka *kafkav1.Kafka) bool {
			return !slices.ContainsFunc(added, func(pod string) bool {
				return !harness.Has(kafka, condition.Warning, "NobodyCanSign", pod)
			})
		})
	})
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.step("the new brokers take part", func() error { return untilNodes(s, 3+len(added)) })
	r.finish()
	r.gapWithin(longestGap(s.result, r.began, r.ended), restartGap)
	s.restartedAtMost(2)
	s.restarted(added, 0)
	s.servedBy(added...)
	r.answers(verdict.Refused, "replication", "mtls")
	s.presentedBy(s.secret(clusterCACert))
	s.copiesOnEach(3 + len(added))
}

// servedBy: clients have connected to each of the nodes.
func (s *stage) servedBy(nodes ...string) {
	s.Helper()
	accepted := map[string]uint64{}
	for _, client := range s.result.Clients {
		for _, node := range client.Handshakes {
			for _, tally := range node.Phases {
				accepted[node.Node] += tally.Accepted
			}
		}
	}
	for _, node := range nodes {
		if accepted[node] == 0 {
			s.Errorf("no client was ever accepted by %s", node)
		}
	}
}

// copiesOnEach makes a topic with a copy on each of so many brokers.
func (s *stage) copiesOnEach(brokers int) {
	s.Helper()
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	s.must(admin.CreateTopicOf(s.ctx, heldTopic, 1, brokers, brokers))
}
