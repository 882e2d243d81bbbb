package entityoperator_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

func TestNothingRunsBesideNodesUnlessTheKafkaAsksForIt(t *testing.T) {
	t.Parallel()
	companions := entityoperator.Companions(authority.WithStores, featuregate.Gates{})
	if got := companions(model.Cluster{}); len(got) > 0 {
		t.Errorf("%+v run, want none", got)
	}
	cluster := model.Cluster{Names: model.Names{Cluster: "my-cluster", Namespace: "kafka"}, UserOperator: &kafkav1.UserOperator{}}
	got := companions(cluster)
	if len(got) != 1 || got[0].Name != "my-cluster-entity-operator" || got[0].Secret != "my-cluster-entity-user-operator-certs" ||
		got[0].CommonName != "my-cluster-entity-user-operator" {
		t.Errorf("%+v run, want the user operator under the names of Strimzi", got)
	}
}

// The ports of one pod are shared by its containers, and a crash of one container must not stop the other.
func TestTheTopicOperatorRunsAloneOrBesideTheUserOperator(t *testing.T) {
	t.Parallel()
	cluster := model.Cluster{Names: model.Names{Cluster: "my-cluster", Namespace: "kafka"}, TopicOperator: &kafkav1.TopicOperator{}}
	companions := entityoperator.Companions(authority.WithStores, featuregate.Gates{})
	alone := companions(cluster)
	if len(alone) != 1 || alone[0].Name != "my-cluster-entity-operator" || alone[0].Secret != "my-cluster-entity-topic-operator-certs" ||
		alone[0].CommonName != "my-cluster-entity-topic-operator" {
		t.Errorf("%+v run, want the topic operator under the names of Strimzi", alone)
	}
	cluster.UserOperator = &kafkav1.UserOperator{}
	groups := companion.Groups(companions(cluster))
	if len(groups) != 1 || len(groups[0]) != 2 {
		t.Fatalf("%+v run, want both operators in one Deployment", groups)
	}
	used := map[int32]string{}
	for _, container := range groups[0].Deployment(companion.Place{Owner: metaac.OwnerReference()}).Spec.Template.Spec.Containers {
		for _, port := range container.Ports {
			if other, taken := used[*port.ContainerPort]; taken {
				t.Errorf("%s and %s both listen on port %d", other, *container.Name, *port.ContainerPort)
			}
			used[*port.ContainerPort] = *container.Name
		}
	}
	if len(used) != 6 || used[groups[0][1].AgentPort()] != "topic-operator" || groups[0][0].Host == groups[0][1].Host || groups[0][0].Member() == groups[0][1].Member() {
		t.Errorf("the operators are not told from each other: ports %v, %+v", used, groups[0])
	}
}

func TestThePrefixOfSecretsIsPassedOn(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]bool{"": false, "users-": true} {
		cluster := model.Cluster{
			Names: model.Names{Cluster: "my-cluster", Namespace: "kafka"}, UserOperator: &kafkav1.UserOperator{SecretPrefix: prefix},
		}
		args := entityoperator.Companions(authority.WithoutStores, featuregate.Gates{})(cluster)[0].Pod.Containers[0].Args
		if slices.Contains(args, "--secret-prefix=users-") != want || !slices.Contains(args, "--pkcs12=false") {
			t.Errorf("with the prefix %q the arguments are %q", prefix, args)
		}
	}
}

// rights are what rules allow, one by one.
func TestTheGatesOfTheClusterOperatorArePassedOn(t *testing.T) {
	t.Parallel()
	cluster := model.Cluster{
		Names: model.Names{Cluster: "my-cluster", Namespace: "kafka"}, UserOperator: &kafkav1.UserOperator{},
	}
	for state, want := range map[featuregate.State]bool{featuregate.Off: false, featuregate.On: true} {
		gates := featuregate.Gates{CertManagerCaType: state}
		args := entityoperator.Companions(authority.WithStores, gates)(cluster)[0].Pod.Containers[0].Args
		if slices.Contains(args, "--feature-gates=+CertManagerCaType") != want {
			t.Errorf("with the gate %s the arguments are %q", state, args)
		}
	}
}

func rights(rules []rbacv1.PolicyRule) []string {
	all := map[string]bool{}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[strings.Join([]string{strings.Join(rule.APIGroups, ","), resource, strings.Join(rule.ResourceNames, ","), verb}, " ")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func TestAUserOperatorHasTheSameRightsWhereverItRuns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files []string
		gates featuregate.Gates
	}{
		"gates off":         {[]string{chartstest.UserOperator}, featuregate.Gates{}},
		"CertManagerCaType": {[]string{chartstest.UserOperator, chartstest.UserOperatorCertManager}, featuregate.Gates{CertManagerCaType: featuregate.On}},
	} {
		var granted []rbacv1.PolicyRule
		for _, file := range test.files {
			granted = append(granted, rulesOfRoles(t, file)...)
		}
		own := entityoperator.Rules(model.Names{Cluster: "my-cluster"}, test.gates)
		if diff := cmp.Diff(rights(granted), rights(own)); diff != "" {
			t.Errorf("%s: rights differ (-chart +beside the nodes):\n%s", name, diff)
		}
	}
}

// One that runs elsewhere has no certificate of its own, and reads that of the cluster operator.
func TestATopicOperatorHasTheSameRightsWhereverItRuns(t *testing.T) {
	t.Parallel()
	granted := rights(rulesOfRoles(t, chartstest.TopicOperator))
	own := append(rights(entityoperator.TopicRules(model.Names{Cluster: "my-cluster"})),
		" secrets my-cluster-cluster-operator-certs,my-cluster-cluster-ca-cert get")
	slices.Sort(own)
	if diff := cmp.Diff(granted, own); diff != "" {
		t.Errorf("rights differ (-chart +beside the nodes):\n%s", diff)
	}
}

// rulesOfRoles are those of a file of the chart. What its ClusterRoles grant has no counterpart beside the nodes.
func rulesOfRoles(t *testing.T, file string) []rbacv1.PolicyRule {
	t.Helper()
	var granted []rbacv1.PolicyRule
	for _, object := range chartstest.Objects(t, filepath.Join("..", "..", ".."), file) {
		if object.GetKind() != "Role" {
			continue
		}
		var role rbacv1.Role
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		granted = append(granted, role.Rules...)
	}
	return granted
}
