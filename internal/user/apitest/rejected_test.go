package apitest

import (
	"maps"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// rejectedQuota is a quota that the schema allows and Kafka rejects.
func rejectedQuota() *kafkav1.UserQuotas { return &kafkav1.UserQuotas{ProducerByteRate: new(int32(0))} }

func isDenied(acl principal.ACL) principal.ACL {
	acl.Permission = principal.Deny
	return acl
}

// A user that was compromised must not keep what its owner takes from it because of a mistake in the same change.
func TestAUserLosesTheRightsThatAreTakenFromItAlsoWhenKafkaRejectsTheRestOfTheChange(t *testing.T) {
	t.Parallel()
	quota := map[principal.Quota]float64{principal.ConsumerByteRate: 5}
	for name, c := range map[string]struct {
		// more is what Kafka holds for the user beside what it wants.
		more               principal.Held
		after              kafkav1.KafkaUserSpec
		plain, certificate principal.Held
	}{
		"an ACL":                        {after: scram(), plain: principal.Held{HasPassword: true, Quotas: readsInKafka().Quotas}},
		"a password, for a certificate": {after: tls(), plain: principal.Held{Quotas: readsInKafka().Quotas}},
		"an ACL, and what limits it stays": {
			more:  principal.Held{ACLs: []principal.ACL{isDenied(readsOrders())}, Quotas: quota},
			after: scram(),
			plain: principal.Held{ACLs: []principal.ACL{isDenied(readsOrders())}, HasPassword: true, Quotas: map[principal.Quota]float64{
				principal.ConsumerByteRate: 5, principal.ProducerByteRate: 1024,
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", reads(scram()))
			w.reconcile("alice")
			held := w.kafka.Held("alice")
			held.ACLs = principal.Sorted(append(held.ACLs, c.more.ACLs...))
			maps.Copy(held.Quotas, c.more.Quotas)
			w.kafka.Hold("alice", held)
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.restart()
			c.after.Quotas = rejectedQuota()
			w.change("alice", c.after)
			w.reconcile("alice")
			w.holds("alice", c.plain, c.certificate)
			w.wantSaid("alice", condition.NotReady, "RejectedByKafka", "spec.quotas")
			w.quiet("alice")

			c.after.Quotas = nil
			w.change("alice", c.after)
			w.reconcile("alice")
			w.holds("alice", principal.Held{HasPassword: c.after.Authentication.Type == kafkav1.UserSCRAM}, principal.Held{})
			w.ready("alice")
		})
	}
}
