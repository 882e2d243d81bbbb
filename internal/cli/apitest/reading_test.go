package apitest

import (
	"bytes"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// serving gives the Kafka a status of a cluster that is ready.
func (n namespace) serving(name string) {
	n.t.Helper()
	kafka := &kafkav1.Kafka{}
	if err := n.admin.Get(n.t.Context(), client.ObjectKey{Namespace: n.name, Name: name}, kafka); err != nil {
		n.t.Fatal(err)
	}
	kafka.Status.Conditions = []condition.Condition{{Type: condition.Ready, Status: condition.True}}
	if err := n.admin.Status().Update(n.t.Context(), kafka); err != nil {
		n.t.Fatal(err)
	}
}

func TestACheckTakesTheRightsOfTheViewer(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	look, _ := documented(t)
	viewer := n.person("viewer", look...)
	steps := []struct {
		args []string
		code int
		says string
	}{
		{[]string{"check", "kafka/my-cluster"}, 5, "NoStatus"},
		{[]string{"check"}, 1, "you need the right to list kafkas.kafka.strimzi.io and get configmaps in namespace " + n.name},
		{[]string{"check", "--all-namespaces"}, 1, "you need the right to list kafkas.kafka.strimzi.io and get configmaps in all namespaces"},
		{[]string{"check", "etcd/my-cluster"}, 1, "you need the right to get etcdclusters.etcd.database.coreos.com"},
		{[]string{"check", "--fail-within", "soon"}, 6, "use days or hours, for example 30d or 12h"},
	}
	for _, step := range steps {
		if text, code := viewer.call(step.args...); code != step.code || !strings.Contains(text, step.says) {
			t.Errorf("%v ends with %d, want %d with %q:\n%s", step.args, code, step.code, step.says, text)
		}
	}
	n.serving("my-cluster")
	if text, code := viewer.call("check", "kafka/my-cluster"); code != 0 || !strings.Contains(text, "Checked 1 cluster: ready") {
		t.Errorf("the check of a cluster that is ready ends with %d:\n%s", code, text)
	}
	if text, code := viewer.call("check", "kafka/my-cluster", "--fail-within", "3650d", "-o", "jsonpath={.findings[0].finding}"); code != 4 || !strings.HasPrefix(text, "ExpiresSoon") {
		t.Errorf("the check of ten years ends with %d:\n%s", code, text)
	}
}

func TestACheckOfANamespaceTakesTheDocumentedRights(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.serving("my-cluster")
	lister := n.person("lister", overview()...)
	text, code := lister.call("check")
	if code != 0 || !strings.Contains(text, "Checked 1 cluster: ready") || !strings.Contains(text, "EtcdClusters were not checked: ask for the right to list etcdclusters") {
		t.Errorf("the check of a cluster that is ready ends with %d:\n%s", code, text)
	}
	n.refused()
	if text, code := lister.call("check"); code != 5 || !strings.Contains(text, "InvalidResourceException: there is no node pool") {
		t.Errorf("the check beside a refused cluster ends with %d:\n%s", code, text)
	}
	if text, code := n.overseer().call("check", "--all-namespaces"); code != 5 || !strings.Contains(text, n.name) {
		t.Errorf("the check of all namespaces ends with %d:\n%s", code, text)
	}
}

func TestACheckOfAnEtcdClusterTakesTheDocumentedRights(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	reader := n.person("reader",
		rbacv1.PolicyRule{APIGroups: []string{"kafka.strimzi.io"}, Resources: []string{"kafkas"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{"etcd.database.coreos.com"}, Resources: []string{"etcdclusters"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "configmaps"}, Verbs: []string{"get"}},
	)
	n.serving("my-cluster")
	n.etcd()
	for _, args := range [][]string{{"check", "etcd/my-etcd"}, {"check"}} {
		if text, code := reader.call(args...); code != 5 || !strings.Contains(text, "NoStatus") || strings.Contains(text, "not checked") {
			t.Errorf("%v ends with %d:\n%s", args, code, text)
		}
	}
}

// etcd creates an EtcdCluster at which no operator looks.
func (n namespace) etcd() {
	n.t.Helper()
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster", "metadata": map[string]any{"name": "my-etcd"},
		"spec": map[string]any{"size": int64(1), "version": "3.6.16"},
	}}
	n.create(cluster)
}
