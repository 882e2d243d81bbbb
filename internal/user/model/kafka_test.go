package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/user/model"
)

func user(name string, kind kafkav1.UserAuthenticationType) *kafkav1.KafkaUser {
	u := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kafka", Labels: map[string]string{"strimzi.io/cluster": "my-cluster"}}}
	if kind != "" {
		u.Spec.Authentication = &kafkav1.UserAuthentication{Type: kind}
	}
	return u
}

func TestTheUsernameIsTheCommonNameOfUsersWithACertificate(t *testing.T) {
	t.Parallel()
	for kind, want := range map[kafkav1.UserAuthenticationType]string{
		kafkav1.UserTLS: "CN=alice", kafkav1.UserTLSExternal: "CN=alice", kafkav1.UserSCRAM: "alice", "": "alice",
	} {
		if got := model.Username(user("alice", kind)); got != want {
			t.Errorf("the user name with authentication %q is %q, want %q", kind, got, want)
		}
	}
}

func acl(kind principal.ResourceType, name string, operation principal.Operation) principal.ACL {
	return principal.ACL{
		Type: kind, Name: name, Pattern: principal.Literal, Host: "*", Operation: operation, Permission: principal.Allow,
	}
}

func TestRulesBecomeOneACLForEachOperation(t *testing.T) {
	t.Parallel()
	topic := kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: "orders"}
	prefixed := acl(principal.Topic, "orders", principal.Read)
	prefixed.Pattern = principal.Prefixed
	denied := acl(principal.Topic, "orders", principal.Read)
	denied.Permission, denied.Host = principal.Deny, "10.0.0.1"
	for name, c := range map[string]struct {
		rules []kafkav1.ACLRule
		want  []principal.ACL
	}{
		"no rules": {},
		"several operations": {
			rules: []kafkav1.ACLRule{{Resource: topic, Operations: []kafkav1.ACLOperation{"Write", "Read"}}},
			want:  []principal.ACL{acl(principal.Topic, "orders", principal.Read), acl(principal.Topic, "orders", principal.Write)},
		},
		"the operation of an old manifest": {
			rules: []kafkav1.ACLRule{{Resource: topic, Operation: "Read"}},
			want:  []principal.ACL{acl(principal.Topic, "orders", principal.Read)},
		},
		"the same twice, with defaults and without": {
			rules: []kafkav1.ACLRule{
				{Resource: topic, Operations: []kafkav1.ACLOperation{"Read", "Read"}},
				{
					Type: kafkav1.ACLAllow, Host: "*", Operation: "Read",
					Resource: kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: "orders", PatternType: kafkav1.ACLLiteral},
				},
			},
			want: []principal.ACL{acl(principal.Topic, "orders", principal.Read)},
		},
		"a prefix": {
			rules: []kafkav1.ACLRule{{Operation: "Read", Resource: kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: "orders", PatternType: kafkav1.ACLPrefix}}},
			want:  []principal.ACL{prefixed},
		},
		"what is denied from a host comes first": {
			rules: []kafkav1.ACLRule{{Resource: topic, Operation: "Read"}, {Type: kafkav1.ACLDeny, Host: "10.0.0.1", Resource: topic, Operation: "Read"}},
			want:  []principal.ACL{denied, acl(principal.Topic, "orders", principal.Read)},
		},
		"every kind of resource": {
			rules: []kafkav1.ACLRule{
				{Operation: "All", Resource: kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: "*"}},
				{Operation: "Read", Resource: kafkav1.ACLResource{Type: kafkav1.ACLGroup, Name: "g"}},
				{Operation: "IdempotentWrite", Resource: kafkav1.ACLResource{Type: kafkav1.ACLCluster}},
				{Operation: "Describe", Resource: kafkav1.ACLResource{Type: kafkav1.ACLTransactionalID, Name: "t"}},
			},
			want: []principal.ACL{
				acl(principal.Topic, "*", principal.All), acl(principal.Group, "g", principal.Read),
				acl(principal.Cluster, "kafka-cluster", principal.IdempotentWrite), acl(principal.TransactionalID, "t", principal.Describe),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := user("alice", kafkav1.UserTLS)
			u.Spec.Authorization = &kafkav1.UserAuthorization{Type: kafkav1.AuthorizationSimple, ACLs: c.rules}
			if diff := cmp.Diff(c.want, model.Wanted(u).ACLs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ACLs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryOperationOfTheSchemaHasItsCode(t *testing.T) {
	t.Parallel()
	codes := map[principal.Operation]bool{}
	for _, operation := range []kafkav1.ACLOperation{
		"Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs", "DescribeConfigs", "IdempotentWrite", "All",
	} {
		u := user("alice", "")
		u.Spec.Authorization = &kafkav1.UserAuthorization{ACLs: []kafkav1.ACLRule{{Operation: operation}}}
		codes[model.Wanted(u).ACLs[0].Operation] = true
	}
	if len(codes) != 11 || codes[0] {
		t.Errorf("the codes are %v, want eleven that are not zero", codes)
	}
}

func TestQuotasHaveTheKeysOfKafka(t *testing.T) {
	t.Parallel()
	u := user("alice", "")
	rate := 0.5
	u.Spec.Quotas = &kafkav1.UserQuotas{
		ProducerByteRate: new(int32(1)), ConsumerByteRate: new(int32(2)), RequestPercentage: new(int32(3)), ControllerMutationRate: &rate,
	}
	want := map[principal.Quota]float64{
		"producer_byte_rate": 1, "consumer_byte_rate": 2, "request_percentage": 3, "controller_mutation_rate": 0.5,
	}
	if diff := cmp.Diff(want, model.Wanted(u).Quotas); diff != "" {
		t.Errorf("quotas (-want +got):\n%s", diff)
	}
}

func TestOnlyBothNamesOfTheUserAreChanged(t *testing.T) {
	t.Parallel()
	u := user("alice", kafkav1.UserSCRAM)
	u.Spec.Authorization = &kafkav1.UserAuthorization{ACLs: []kafkav1.ACLRule{{Operation: "Read", Resource: kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: "a"}}}}
	rule := acl(principal.Topic, "a", principal.Read)
	all := principal.Held{ACLs: []principal.ACL{rule}, HasPassword: true}
	held := func(of map[string]principal.Held) func(string) principal.Held {
		return func(name string) principal.Held { return of[name] }
	}
	for name, c := range map[string]struct {
		held map[string]principal.Held
		want model.Plan
	}{
		"at rest": {held: map[string]principal.Held{"alice": all, "bob": all}},
		"it had a certificate before": {
			held: map[string]principal.Held{"CN=alice": {ACLs: []principal.ACL{rule}}, "CN=alice,O=x": all},
			want: model.Plan{
				{Username: "alice", Change: principal.Change{Create: []principal.ACL{rule}}},
				{Username: "CN=alice", Change: principal.Change{Delete: []principal.ACL{rule}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := model.PlanChange(u, held(c.held), true)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
	removal := model.PlanRemoval(u, held(map[string]principal.Held{"alice": all, "CN=alice": all, "bob": all}))
	if len(removal) != 2 || !removal[0].Revoke || len(removal[1].Delete) != 1 {
		t.Errorf("the removal is %+v, want that of both names", removal)
	}
	if plan := model.PlanChange(u, held(map[string]principal.Held{"alice": {HasPassword: true}}), false); len(plan) > 0 {
		t.Errorf("without an authorizer the plan is %+v, want none", plan)
	}
}

func TestUsersThatAreNoKafkaUsersAreCounted(t *testing.T) {
	t.Parallel()
	some := principal.Held{HasPassword: true}
	held := map[string]principal.Held{
		"alice": some, "CN=alice": some, "CN=bob": some, "carol": some, "CN=alice,O=x": some, `q"=ü`: some, "*": some, "ANONYMOUS": some,
		"revoked": {},
	}
	isKafkaUser := func(name string) bool { return name == "alice" || name == "bob" }
	got := model.Unmanaged(held, isKafkaUser)
	if diff := cmp.Diff([]string{"CN=alice,O=x", "carol", `q"=ü`}, got); diff != "" {
		t.Errorf("unmanaged users (-want +got):\n%s", diff)
	}
}

func TestAUserNeverTakesTheNameOfASecretOfTheCluster(t *testing.T) {
	t.Parallel()
	for name, isRefused := range map[string]bool{
		"my-cluster-cluster-ca": true, "my-cluster-clients-ca-cert": true, "my-cluster-cluster-ca-trusted-certs": true,
		"my-cluster-cluster-operator-certs": true, "my-cluster-entity-user-operator-certs": true,
		"cluster-operator": false, "other-cluster-ca": false,
	} {
		u := &kafkav1.KafkaUser{Spec: kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kafkav1.UserSCRAM}}}
		u.Name, u.Labels = name, map[string]string{"strimzi.io/cluster": "my-cluster"}
		d := model.Decide(model.Observed{User: u, SecretName: name, Kafka: &kafkav1.Kafka{}})
		if d.IsRefused != isRefused || isRefused && (d.Problem.Reason != model.ForeignObject || !strings.Contains(d.Problem.Message, name)) {
			t.Errorf("user %s: refused %t because of %+v, want %t", name, d.IsRefused, d.Problem, isRefused)
		}
	}
}

func TestTheStatusNamesTwentyUsersThatAreNoKafkaUsers(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, 23)
	for i := range 23 {
		names = append(names, fmt.Sprintf("user-%02d", i))
	}
	var status kafkav1.UsersStatus
	model.CountUnmanaged(&status, names)
	if diff := cmp.Diff(names[:20], status.UnmanagedNames); diff != "" || *status.Unmanaged != 23 {
		t.Errorf("%d users are counted; names (-want +got):\n%s", *status.Unmanaged, diff)
	}
}

func TestNamesOfCertificatesAreShortAndOthersAreNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   kafkav1.UserAuthenticationType
		length int
		reason model.Reason
	}{
		"a certificate and 65 characters":           {kafkav1.UserTLS, 65, model.NameTooLong},
		"a certificate from outside, 65 characters": {kafkav1.UserTLSExternal, 65, model.NameTooLong},
		"a password and 253 characters":             {kafkav1.UserSCRAM, 253, ""},
		"a certificate from outside, 64 characters": {kafkav1.UserTLSExternal, 64, ""},
		"no authentication and 253 characters":      {"", 253, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := model.Decide(model.Observed{User: user(strings.Repeat("n", c.length), c.kind), Kafka: withSCRAM(), Now: noon()})
			if d.Problem != nil && d.Problem.Reason != c.reason || d.Problem == nil && c.reason != "" {
				t.Errorf("the problem is %+v, want %q", d.Problem, c.reason)
			}
		})
	}
}

func withSCRAM() *kafkav1.Kafka {
	return &kafkav1.Kafka{
		ObjectMeta: metav1.ObjectMeta{Name: "my-cluster"},
		Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{{
			Name: "scram", Port: 9094, TLS: true, Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationSCRAM},
		}}}},
	}
}

func TestWhereAPasswordComesFrom(t *testing.T) {
	t.Parallel()
	own := func(password string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "alice", Labels: map[string]string{"strimzi.io/kind": "KafkaUser", "strimzi.io/cluster": "my-cluster"}},
			Data:       map[string][]byte{"password": []byte(password)},
		}
	}
	brought := func(password string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "brought"}, Data: map[string][]byte{"secret": []byte(password)}}
	}
	for name, c := range map[string]struct {
		refers         bool
		stored, source *corev1.Secret
		password, jaas string
		reason         model.Reason
	}{
		"the one in use stays": {stored: own("in-use"), password: "in-use"},
		"the one of the reference wins": {
			refers: true, stored: own("in-use"), source: brought("mine"), password: "mine",
			jaas: `org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="mine";`,
		},
		"quotes and backslashes are escaped": {
			refers: true, source: brought(`a"b\c`), password: `a"b\c`,
			jaas: `org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a\"b\\c";`,
		},
		"the Secret is missing":              {refers: true, stored: own("in-use"), reason: model.MissingPassword},
		"the key is missing":                 {refers: true, source: &corev1.Secret{}, reason: model.MissingPassword},
		"the value is empty":                 {refers: true, source: brought(""), reason: model.MissingPassword},
		"a line break at its end":            {refers: true, source: brought("mine\n"), reason: model.InvalidPassword},
		"bytes that are no text":             {refers: true, source: brought("\xff\xfe"), reason: model.InvalidPassword},
		"the one in use was edited to bytes": {stored: own("\x00"), reason: model.InvalidPassword},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := user("alice", kafkav1.UserSCRAM)
			if c.refers {
				u.Spec.Authentication.Password = &kafkav1.UserPassword{ValueFrom: kafkav1.UserPasswordSource{
					SecretKeyRef: kafkav1.SecretKeyReference{Name: "brought", Key: "secret"},
				}}
			}
			d := model.Decide(model.Observed{User: u, Kafka: withSCRAM(), Secret: c.stored, PasswordSecret: c.source, Now: noon()})
			if c.reason != "" {
				if d.Problem == nil || d.Problem.Reason != c.reason || d.Password != "" || d.Data != nil {
					t.Errorf("the problem is %+v, want %s and nothing changed", d.Problem, c.reason)
				}
				return
			}
			if d.Problem != nil || d.Password != c.password || string(d.Data["password"]) != c.password {
				t.Errorf("the password is %q (%+v), want %q", d.Password, d.Problem, c.password)
			}
			if c.jaas != "" && string(d.Data["sasl.jaas.config"]) != c.jaas {
				t.Errorf("the configuration is %s, want %s", d.Data["sasl.jaas.config"], c.jaas)
			}
		})
	}
}

func TestAGeneratedPasswordIsLongAndNeverTheSame(t *testing.T) {
	t.Parallel()
	passwords := map[string]bool{}
	for range 20 {
		password := model.Decide(model.Observed{User: user("alice", kafkav1.UserSCRAM), Kafka: withSCRAM(), Now: noon()}).Password
		if len(password) != 32 {
			t.Errorf("a password has %d characters, want 32", len(password))
		}
		passwords[password] = true
	}
	if len(passwords) != 20 {
		t.Errorf("%d passwords of 20 differ", len(passwords))
	}
}

func TestAPasswordThatNoListenerAsksForIsAWarning(t *testing.T) {
	t.Parallel()
	d := model.Decide(model.Observed{User: user("alice", kafkav1.UserSCRAM), Kafka: &kafkav1.Kafka{}, Now: noon()})
	if d.Problem != nil || len(d.Warnings) != 1 || d.Warnings[0].Reason != model.MissingListener {
		t.Errorf("the problem is %+v and the warnings are %+v, want a warning", d.Problem, d.Warnings)
	}
}
