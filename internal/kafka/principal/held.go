package principal

import (
	"maps"
	"slices"
)

// Quota is the key of a quota of a user.
type Quota string

// The quotas of users.
const (
	ProducerByteRate       Quota = "producer_byte_rate"
	ConsumerByteRate       Quota = "consumer_byte_rate"
	RequestPercentage      Quota = "request_percentage"
	ControllerMutationRate Quota = "controller_mutation_rate"
)

// Held is what Kafka holds for one user name. The zero value is nothing.
type Held struct {
	// ACLs are sorted, each once.
	ACLs []ACL
	// Quotas are those of the user alone, not those of the user together with a client ID.
	Quotas map[Quota]float64
	// HasPassword: there is a SCRAM-SHA-512 credential that was not revoked. Kafka does not give it away.
	HasPassword bool
	// HasOther: there is a credential of another mechanism, which is never changed.
	HasOther bool
}

// Equal reports whether two are the same.
func (h Held) Equal(other Held) bool {
	return h.HasPassword == other.HasPassword && h.HasOther == other.HasOther &&
		slices.Equal(h.ACLs, other.ACLs) && maps.Equal(h.Quotas, other.Quotas)
}

// Change is what makes Kafka hold something else for a user name. What is added comes first, so that a user never
// has less than both before and after give it. That a password is new cannot be seen in what Kafka holds.
type Change struct {
	Create []ACL
	Set    map[Quota]float64

	Revoke bool
	Delete []ACL
	Unset  []Quota
}

// IsNone reports whether there is nothing to change.
func (c Change) IsNone() bool {
	return len(c.Create)+len(c.Set)+len(c.Delete)+len(c.Unset) == 0 && !c.Revoke
}

// WithLimitsKept is the change without the removal of quotas and of ACLs that deny.
func (c Change) WithLimitsKept() Change {
	c.Unset = nil
	c.Delete = slices.DeleteFunc(slices.Clone(c.Delete), func(acl ACL) bool { return acl.Permission == Deny })
	return c
}

// Diff is what makes Kafka hold what is wanted. ACLs that deny are created first and deleted last.
func Diff(held, wanted Held) Change {
	change := Change{
		Create: without(wanted.ACLs, held.ACLs),
		Delete: without(held.ACLs, wanted.ACLs),
		Revoke: held.HasPassword && !wanted.HasPassword,
	}
	slices.Reverse(change.Delete)
	for key, value := range wanted.Quotas {
		if now, is := held.Quotas[key]; !is || now != value {
			if change.Set == nil {
				change.Set = map[Quota]float64{}
			}
			change.Set[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(held.Quotas)) {
		if _, is := wanted.Quotas[key]; !is {
			change.Unset = append(change.Unset, key)
		}
	}
	return change
}
