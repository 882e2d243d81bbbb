package apitest

import (
	"bytes"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/cli"
)

// overview are the rules that docs/kubectl.md tells people to grant for a status of
// all namespaces.
func overview() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"kafka.strimzi.io"}, Resources: []string{"kafkas"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}
}

// overseer is a person who may have a status of all namespaces.
func (n namespace) overseer() person {
	n.t.Helper()
	const name = "overseer"
	p := n.person(name)
	named := metav1.ObjectMeta{Name: name + "-" + n.name}
	role := &rbacv1.ClusterRole{ObjectMeta: named, Rules: overview()}
	if err := n.admin.Create(n.t.Context(), role); err != nil {
		n.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: named,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name + "-" + n.name}},
	}
	if err := n.admin.Create(n.t.Context(), binding); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// refused adds a Kafka "other" that the operator has never acted on.
func (n namespace) refused() {
	n.t.Helper()
	kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{
		Listeners: []kafkav1.Listener{{Name: "tls", Port: 9093, Type: "internal", TLS: true}},
	}}}
	n.create(kafka)
	kafka.Status.Conditions = []condition.Condition{{
		Type: condition.NotReady, Status: condition.True, Reason: "InvalidResourceException", Message: "there is no node pool",
	}}
	if err := n.admin.Status().Update(n.t.Context(), kafka); err != nil {
		n.t.Fatal(err)
	}
}

func TestStatusOfARefusedKafkaShowsItsConditions(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.refused()
	reader := n.person("reader",
		rbacv1.PolicyRule{APIGroups: []string{"kafka.strimzi.io"}, Resources: []string{"kafkas"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	if text, code := reader.call("status", "kafka/other"); code != 0 || !strings.Contains(text, "InvalidResourceException  there is no node pool") {
		t.Errorf("status ends with %d:\n%s", code, text)
	}
	if text, code := reader.call("status", "kafka/none"); code != 1 || !strings.HasPrefix(text, "kafka/none does not exist in namespace ") {
		t.Errorf("status of a Kafka that is not there ends with %d:\n%s", code, text)
	}
}

func TestStatusOfAllNamespacesTakesTheDocumentedRights(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.refused()
	guest := n.person("guest")
	if text, code := guest.call("status", "--all-namespaces"); code != 1 ||
		!strings.Contains(text, "you need the right to list kafkas.kafka.strimzi.io and get configmaps in all namespaces, by a ClusterRole") {
		t.Errorf("status without rights ends with %d:\n%s", code, text)
	}
	text, code := n.overseer().call("status", "--all-namespaces")
	for _, want := range []string{n.name, "False (InvalidResourceException)", "there is no node pool"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("status ends with %d, without %q:\n%s", code, want, text)
		}
	}
}

func TestNamesAreCompletedWithTheRightToList(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	tests := map[string]struct {
		rules []rbacv1.PolicyRule
		want  string
	}{
		"lister":   {overview(), "kafka/my-cluster\n:4\n"},
		"stranger": {nil, ":4\n"},
	}
	for name, test := range tests {
		p := n.person(name, test.rules...)
		var out, noise bytes.Buffer
		code := cli.Plugin([]string{
			"kubectl_complete-keyturn", "status", "--kubeconfig", p.kubeconfig, "--namespace", p.namespace, "",
		}, &out, &noise, nil)
		if code != 0 || out.String() != test.want {
			t.Errorf("completion for the %s ends with %d and offers %q, want %q", name, code, out.String(), test.want)
		}
	}
}
