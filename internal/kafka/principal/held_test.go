package principal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/principal"
)

func read(topic string) principal.ACL {
	return principal.ACL{
		Type: principal.Topic, Name: topic, Pattern: principal.Literal, Host: principal.AnyHost,
		Operation: principal.Read, Permission: principal.Allow,
	}
}

func denied(acl principal.ACL) principal.ACL {
	acl.Permission = principal.Deny
	return acl
}

func TestOnlyWhatDiffersIsChanged(t *testing.T) {
	t.Parallel()
	type quotas = map[principal.Quota]float64
	for name, c := range map[string]struct {
		held, wanted principal.Held
		want         principal.Change
	}{
		"nothing is held and nothing wanted": {},
		"all is as it shall be": {
			held:   principal.Held{ACLs: []principal.ACL{read("a")}, Quotas: quotas{principal.ProducerByteRate: 5}, HasPassword: true},
			wanted: principal.Held{ACLs: []principal.ACL{read("a")}, Quotas: quotas{principal.ProducerByteRate: 5}, HasPassword: true},
		},
		"a new user": {
			wanted: principal.Held{ACLs: principal.Sorted([]principal.ACL{read("a"), denied(read("b"))}), Quotas: quotas{principal.RequestPercentage: 50}, HasPassword: true},
			want:   principal.Change{Create: []principal.ACL{denied(read("b")), read("a")}, Set: quotas{principal.RequestPercentage: 50}},
		},
		"a user that is deleted": {
			held: principal.Held{ACLs: principal.Sorted([]principal.ACL{read("a"), denied(read("b"))}), Quotas: quotas{principal.RequestPercentage: 50}, HasPassword: true},
			want: principal.Change{Delete: []principal.ACL{read("a"), denied(read("b"))}, Unset: []principal.Quota{principal.RequestPercentage}, Revoke: true},
		},
		"one of two rules and a value change": {
			held:   principal.Held{ACLs: []principal.ACL{read("a"), read("b")}, Quotas: quotas{principal.ProducerByteRate: 5, principal.ConsumerByteRate: 6}},
			wanted: principal.Held{ACLs: []principal.ACL{read("b"), read("c")}, Quotas: quotas{principal.ProducerByteRate: 5, principal.ConsumerByteRate: 7}},
			want:   principal.Change{Create: []principal.ACL{read("c")}, Delete: []principal.ACL{read("a")}, Set: quotas{principal.ConsumerByteRate: 7}},
		},
		"a credential of another mechanism stays": {held: principal.Held{HasOther: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := principal.Diff(c.held, c.wanted)
			if len(got.Create) == 0 {
				got.Create = nil
			}
			if len(got.Delete) == 0 {
				got.Delete = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			if got.IsNone() != cmp.Equal(c.want, principal.Change{}) {
				t.Errorf("none: %t, want the opposite", got.IsNone())
			}
		})
	}
}

func TestLimitsAreKeptWhereOnlyRightsAreRemoved(t *testing.T) {
	t.Parallel()
	change := principal.Change{
		Create: []principal.ACL{read("c")}, Revoke: true,
		Delete: []principal.ACL{read("a"), denied(read("b"))}, Unset: []principal.Quota{principal.RequestPercentage},
	}
	want := principal.Change{Create: []principal.ACL{read("c")}, Revoke: true, Delete: []principal.ACL{read("a")}}
	if diff := cmp.Diff(want, change.WithLimitsKept()); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
}
