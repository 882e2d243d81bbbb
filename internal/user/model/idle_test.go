package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/user/model"
)

func rules(acls ...kafkav1.ACLRule) kafkav1.KafkaUserSpec {
	return kafkav1.KafkaUserSpec{Authorization: &kafkav1.UserAuthorization{ACLs: acls}}
}

func topic(name string, pattern kafkav1.ACLPatternType) kafkav1.ACLResource {
	return kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: name, PatternType: pattern}
}

func TestWhatDoesNothingIsAWarning(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec        kafkav1.KafkaUserSpec
		annotations map[string]string
		reason      model.Reason
		says        string
	}{
		"a host that is a network": {rules(kafkav1.ACLRule{Resource: topic("a", ""), Host: "10.0.0.0/8"}), nil, model.ACLWithoutEffect, `acls[0].host is "10.0.0.0/8"`},
		"a host that is a name":    {rules(kafkav1.ACLRule{Resource: topic("a", ""), Host: "app.example.com"}), nil, model.ACLWithoutEffect, "app.example.com"},
		"a prefix with an asterisk": {
			rules(kafkav1.ACLRule{Resource: topic("orders-*", kafkav1.ACLPrefix)}), nil, model.ACLWithoutEffect, `"orders-*" with patternType prefix`,
		},
		"another name of the cluster": {
			rules(kafkav1.ACLRule{Resource: kafkav1.ACLResource{Type: kafkav1.ACLCluster, Name: "mine"}}), nil, model.FieldsWithoutEffect, "acls[0].resource.name",
		},
		"a password of a user with a certificate": {
			kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kafkav1.UserTLSExternal, Password: &kafkav1.UserPassword{}}},
			nil,
			model.FieldsWithoutEffect, "spec.authentication.password",
		},
		"a request that belongs on the Secret": {
			kafkav1.KafkaUserSpec{}, map[string]string{"strimzi.io/force-renew": "true"}, model.AnnotationWithoutEffect, "set it on Secret alice",
		},
		"a misspelled request": {
			kafkav1.KafkaUserSpec{}, map[string]string{"strimzi.io/pause-reconcile": "true"}, model.AnnotationWithoutEffect, "strimzi.io/pause-reconciliation",
		},
		"a pause that is none": {
			kafkav1.KafkaUserSpec{}, map[string]string{"strimzi.io/pause-reconciliation": "yes"}, model.AnnotationWithoutEffect, `"true" or "false"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Name: "alice", Namespace: "kafka", Annotations: test.annotations}, Spec: test.spec}
			warnings := model.Decide(model.Observed{User: user, SecretName: "alice", Now: time.Now()}).Warnings
			said := func(w model.Remark) bool { return w.Reason == test.reason && strings.Contains(w.Message, test.says) }
			if !slices.ContainsFunc(warnings, said) {
				t.Errorf("warnings are %+v, want %s with %q", warnings, test.reason, test.says)
			}
		})
	}
}

func TestWhatKafkaObeysIsNoWarning(t *testing.T) {
	t.Parallel()
	user := &kafkav1.KafkaUser{
		ObjectMeta: metav1.ObjectMeta{Name: "alice", Namespace: "kafka", Annotations: map[string]string{"keyturn.dev/access-from": "apps", "example.com/a": "b"}},
		Spec: rules(
			kafkav1.ACLRule{Resource: kafkav1.ACLResource{Type: kafkav1.ACLCluster, Name: "kafka-cluster", PatternType: kafkav1.ACLLiteral}, Host: "*"},
			kafkav1.ACLRule{Resource: topic("*", kafkav1.ACLLiteral), Host: "10.0.0.1"},
			kafkav1.ACLRule{Resource: topic("orders-", kafkav1.ACLPrefix), Host: "::1"},
		),
	}
	if warnings := model.Decide(model.Observed{User: user, SecretName: "alice", Now: time.Now()}).Warnings; len(warnings) > 0 {
		t.Errorf("warnings are %+v", warnings)
	}
}

func TestAnACLOfTheClusterHasOneName(t *testing.T) {
	t.Parallel()
	user := &kafkav1.KafkaUser{Spec: rules(kafkav1.ACLRule{
		Resource:   kafkav1.ACLResource{Type: kafkav1.ACLCluster, Name: "*", PatternType: kafkav1.ACLPrefix},
		Operations: []kafkav1.ACLOperation{"IdempotentWrite"},
	})}
	wanted := model.Wanted(user).ACLs
	if len(wanted) != 1 || wanted[0].Name != "kafka-cluster" || wanted[0].Pattern != principal.Literal {
		t.Errorf("Kafka is given %+v", wanted)
	}
}
