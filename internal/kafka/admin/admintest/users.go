package admintest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// UsersSubject is a cluster with an authorizer, and clients of it that may do everything.
type UsersSubject struct {
	Client admin.UsersClient
	// Unreachable is a client of a cluster that is not there.
	Unreachable admin.UsersClient
}

// RunUsers checks a client of what a cluster holds for its users. It leaves users behind that are named after the checks.
func RunUsers(t *testing.T, factory func(t *testing.T) UsersSubject) {
	t.Helper()
	s := factory(t)
	for name, check := range map[string]func(*testing.T, UsersSubject){
		"ACLs of every kind are created and described":          aclsOfEveryKind,
		"ACLs of one user are deleted and no others":            aclsOfOneUser,
		"quotas are set, changed and taken away one by one":     quotasOneByOne,
		"a quota of zero is rejected":                           quotaOfZero,
		"a password is shown to be there, and is revoked":       passwords,
		"names need no care":                                    strangeNames,
		"a name of 253 characters can have a password":          longName,
		"a change may be repeated":                              repeated,
		"an ACL that Kafka does not accept is rejected":         rejectedACL,
		"a cluster that is not there is unreachable for anyone": usersUnreachable,
	} {
		t.Run(name, func(t *testing.T) { check(t, s) })
	}
}

func allow(kind principal.ResourceType, name string, operation principal.Operation) principal.ACL {
	return principal.ACL{
		Type: kind, Name: name, Pattern: principal.Literal, Host: principal.AnyHost, Operation: operation, Permission: principal.Allow,
	}
}

// holds waits until Kafka holds this for a user.
func (s UsersSubject) holds(t *testing.T, user string, want principal.Held) {
	t.Helper()
	want.ACLs = principal.Sorted(want.ACLs)
	var got principal.Held
	settles(t, func(ctx context.Context) (bool, error) {
		users, err := s.Client.DescribeUsers(ctx)
		got = users.Held[user]
		return err == nil && users.Authorizes && cmp.Equal(want, got, cmpopts.EquateEmpty()), err
	})
}

func (s UsersSubject) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func aclsOfEveryKind(t *testing.T, s UsersSubject) {
	acls := []principal.ACL{
		allow(principal.Topic, "*", principal.All),
		allow(principal.Topic, "orders", principal.IdempotentWrite),
		allow(principal.Group, "g", principal.Read),
		allow(principal.Cluster, principal.ClusterName, principal.ClusterAction),
		allow(principal.TransactionalID, "t", principal.Describe),
		{Type: principal.Topic, Name: "Orders", Pattern: principal.Prefixed, Host: "10.0.0.1", Operation: principal.AlterConfigs, Permission: principal.Deny},
		{Type: principal.Topic, Name: "*", Pattern: principal.Prefixed, Host: "::1", Operation: principal.DescribeConfigs, Permission: principal.Allow},
	}
	for _, operation := range []principal.Operation{principal.Write, principal.Create, principal.Delete, principal.Alter} {
		acls = append(acls, allow(principal.Topic, "orders", operation))
	}
	s.must(t, s.Client.CreateACLs(t.Context(), "every-kind", acls))
	s.holds(t, "every-kind", principal.Held{ACLs: acls})
}

func aclsOfOneUser(t *testing.T, s UsersSubject) {
	first, second := allow(principal.Topic, "a", principal.Read), allow(principal.Topic, "b", principal.Read)
	for _, user := range []string{"one", "CN=one"} {
		s.must(t, s.Client.CreateACLs(t.Context(), user, []principal.ACL{first, second}))
	}
	s.must(t, s.Client.DeleteACLs(t.Context(), "one", []principal.ACL{first}))
	s.holds(t, "one", principal.Held{ACLs: []principal.ACL{second}})
	s.must(t, s.Client.DeleteACLs(t.Context(), "one", []principal.ACL{second}))
	s.holds(t, "one", principal.Held{})
	s.holds(t, "CN=one", principal.Held{ACLs: []principal.ACL{first, second}})
}

func quotasOneByOne(t *testing.T, s UsersSubject) {
	type quotas = map[principal.Quota]float64
	all := quotas{
		principal.ProducerByteRate: 1 << 20, principal.ConsumerByteRate: 2 << 20,
		principal.RequestPercentage: 55, principal.ControllerMutationRate: 1.5,
	}
	s.must(t, s.Client.AlterQuotas(t.Context(), "CN=quotas", all, nil))
	s.holds(t, "CN=quotas", principal.Held{Quotas: all})
	s.must(t, s.Client.AlterQuotas(t.Context(), "CN=quotas", quotas{principal.ProducerByteRate: 7}, []principal.Quota{principal.RequestPercentage, principal.ConsumerByteRate}))
	s.holds(t, "CN=quotas", principal.Held{Quotas: quotas{principal.ProducerByteRate: 7, principal.ControllerMutationRate: 1.5}})
	s.must(t, s.Client.AlterQuotas(t.Context(), "CN=quotas", nil, []principal.Quota{principal.ProducerByteRate, principal.ControllerMutationRate}))
	s.holds(t, "CN=quotas", principal.Held{})
}

func quotaOfZero(t *testing.T, s UsersSubject) {
	for _, key := range []principal.Quota{
		principal.ProducerByteRate, principal.ConsumerByteRate, principal.RequestPercentage, principal.ControllerMutationRate,
	} {
		isRejected(t, s.Client.AlterQuotas(t.Context(), "zero", map[principal.Quota]float64{key: 0}, nil))
	}
	s.holds(t, "zero", principal.Held{})
}

func passwords(t *testing.T, s UsersSubject) {
	s.must(t, s.Client.UpsertPassword(t.Context(), "password", "first"))
	s.holds(t, "password", principal.Held{HasPassword: true})
	s.must(t, s.Client.UpsertPassword(t.Context(), "password", "second"))
	s.holds(t, "password", principal.Held{HasPassword: true})
	s.must(t, s.Client.RevokePassword(t.Context(), "password"))
	s.holds(t, "password", principal.Held{})
}

func strangeNames(t *testing.T, s UsersSubject) {
	for _, user := range []string{`CN=a,O="b=c"`, "jürgen ☕", `quote"d`, "a:b/c%20"} {
		acl := allow(principal.Topic, "x", principal.Read)
		s.must(t, s.Client.CreateACLs(t.Context(), user, []principal.ACL{acl}))
		s.must(t, s.Client.AlterQuotas(t.Context(), user, map[principal.Quota]float64{principal.ProducerByteRate: 9}, nil))
		s.holds(t, user, principal.Held{ACLs: []principal.ACL{acl}, Quotas: map[principal.Quota]float64{principal.ProducerByteRate: 9}})
	}
}

func longName(t *testing.T, s UsersSubject) {
	user := strings.Repeat("n", 253)
	acl := allow(principal.Topic, "x", principal.Read)
	s.must(t, s.Client.CreateACLs(t.Context(), user, []principal.ACL{acl}))
	s.must(t, s.Client.UpsertPassword(t.Context(), user, "secret"))
	s.holds(t, user, principal.Held{ACLs: []principal.ACL{acl}, HasPassword: true})
}

func repeated(t *testing.T, s UsersSubject) {
	acls := []principal.ACL{allow(principal.Topic, "again", principal.Read)}
	for range 2 {
		s.must(t, s.Client.CreateACLs(t.Context(), "again", acls))
		s.must(t, s.Client.UpsertPassword(t.Context(), "again", "secret"))
	}
	s.holds(t, "again", principal.Held{ACLs: acls, HasPassword: true})
	for range 2 {
		s.must(t, s.Client.DeleteACLs(t.Context(), "again", acls))
		s.must(t, s.Client.RevokePassword(t.Context(), "again"))
		s.must(t, s.Client.AlterQuotas(t.Context(), "again", nil, []principal.Quota{principal.ProducerByteRate}))
	}
	s.holds(t, "again", principal.Held{})
}

func rejectedACL(t *testing.T, s UsersSubject) {
	isRejected(t, s.Client.CreateACLs(t.Context(), "rejected", []principal.ACL{allow(principal.Topic, "", principal.Read)}))
}

func isRejected(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*admin.RejectedError](err); !ok {
		t.Errorf("error %v, want a RejectedError", err)
	}
}

func usersUnreachable(t *testing.T, s UsersSubject) {
	_, err := s.Unreachable.DescribeUsers(t.Context())
	if _, ok := errors.AsType[*admin.UnreachableError](err); !ok {
		t.Errorf("error %v, want an UnreachableError", err)
	}
}
