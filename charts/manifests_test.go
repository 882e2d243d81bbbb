package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// rendered reads the objects of a file of config/install. Unknown fields are errors.
func rendered(t *testing.T, file string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, untyped := range chartstest.Objects(t, "..", file) {
		document, err := untyped.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("decoding %s %s of %s: %v", untyped.GetKind(), untyped.GetName(), file, err)
		}
		objects = append(objects, object)
	}
	return objects
}

// all returns the objects of one type.
func all[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	found := all[T](objects)
	if len(found) != 1 {
		t.Fatalf("got %d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func TestTheDefinitionsAreAFileOfTheirOwn(t *testing.T) {
	t.Parallel()
	var names []string
	objects := rendered(t, chartstest.Definitions)
	for _, definition := range all[*apiextensionsv1.CustomResourceDefinition](objects) {
		names = append(names, definition.Name)
	}
	slices.Sort(names)
	want := []string{
		"etcdaccesses.keyturn.dev", "etcdbackups.etcd.database.coreos.com", "etcdclusters.etcd.database.coreos.com", "etcdpkis.keyturn.dev", "kafkaaccesses.access.strimzi.io", "kafkaaccesses.kafka.strimzi.io", "kafkanodepools.kafka.strimzi.io",
		"kafkas.kafka.strimzi.io", "kafkatopics.kafka.strimzi.io", "kafkausers.kafka.strimzi.io", "strimzipodsets.core.strimzi.io",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("definitions differ (-want +got):\n%s", diff)
	}
	if others := len(objects) - len(names); others != 0 {
		t.Errorf("beside the definitions there are %d other objects", others)
	}
}

// Somebody will run kubectl delete -f with a manifest, and with the definitions every Kafka would go.
func TestDeletingAManifestDeletesNoKafka(t *testing.T) {
	t.Parallel()
	for _, file := range []string{chartstest.ClusterWide, chartstest.Namespaced, chartstest.UserOperator, chartstest.TopicOperator, chartstest.AccessOperator, chartstest.CertManager, chartstest.UserOperatorCertManager, chartstest.EtcdOperator} {
		for _, definition := range all[*apiextensionsv1.CustomResourceDefinition](rendered(t, file)) {
			t.Errorf("%s holds the definition %s", file, definition.Name)
		}
	}
}

// Pods of other processes behind the operator's Service or disruption budget would stand in for it.
func TestTheOperatorsSelectorLeavesOutOtherProcesses(t *testing.T) {
	t.Parallel()
	service := only[*corev1.Service](t, rendered(t, chartstest.ClusterWide))
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for _, file := range []string{chartstest.UserOperator, chartstest.TopicOperator, chartstest.AccessOperator, chartstest.EtcdOperator} {
		process := only[*appsv1.Deployment](t, rendered(t, file))
		if selector.Matches(labels.Set(process.Spec.Template.Labels)) {
			t.Errorf("%s: the operator's Service selects %v", file, process.Spec.Template.Labels)
		}
	}
}

func TestAUserOperatorHasNoRightsOutsideOfItsNamespace(t *testing.T) {
	t.Parallel()
	objects := rendered(t, chartstest.UserOperator)
	if role := only[*rbacv1.Role](t, objects); role.Namespace != "kafka" {
		t.Errorf("its rights are in namespace %s, want kafka", role.Namespace)
	}
	if roles, bindings := all[*rbacv1.ClusterRole](objects), all[*rbacv1.ClusterRoleBinding](objects); len(roles)+len(bindings) != 0 {
		t.Errorf("it has %d ClusterRoles and %d bindings, want none", len(roles), len(bindings))
	}
}

// Service Binding implementations gather the ClusterRoles with this label: what is in it goes to all of them.
func TestServiceBindingImplementationsSeeKafkaAccessesAndNothingElse(t *testing.T) {
	t.Parallel()
	var got []rbacv1.PolicyRule
	for _, role := range all[*rbacv1.ClusterRole](rendered(t, chartstest.AccessOperator)) {
		if role.Labels["servicebinding.io/controller"] == "true" {
			got = append(got, role.Rules...)
		}
	}
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{"access.strimzi.io", "kafka.strimzi.io"}, Resources: []string{"kafkaaccesses"}, Verbs: []string{"get", "list", "watch"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the rules differ (-want +got):\n%s", diff)
	}
}

func TestTheAccessOperatorAsksForConsentByDefault(t *testing.T) {
	t.Parallel()
	container := only[*appsv1.Deployment](t, rendered(t, chartstest.AccessOperator)).Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--cross-namespace-references=consent") {
		t.Errorf("its arguments are %v", container.Args)
	}
}

func TestAgentsComeOutOfTheOperatorsImage(t *testing.T) {
	t.Parallel()
	for _, file := range []string{chartstest.ClusterWide, chartstest.Namespaced} {
		operator := only[*appsv1.Deployment](t, rendered(t, file)).Spec.Template.Spec.Containers[0]
		if want := "--agent-image=" + operator.Image; !slices.Contains(operator.Args, want) {
			t.Errorf("%s: the operator runs %s and is not told %s: %v", file, operator.Image, want, operator.Args)
		}
	}
}

func TestNamespacedOperatorHasNoRightsElsewhere(t *testing.T) {
	t.Parallel()
	objects := rendered(t, chartstest.Namespaced)
	if roles := all[*rbacv1.ClusterRole](objects); len(roles) != 0 {
		t.Errorf("got ClusterRole %s, want none", roles[0].Name)
	}
	if bindings := all[*rbacv1.ClusterRoleBinding](objects); len(bindings) != 0 {
		t.Errorf("got ClusterRoleBinding %s, want none", bindings[0].Name)
	}
	var places []string
	for _, role := range all[*rbacv1.Role](objects) {
		places = append(places, role.Namespace+"/"+role.Name)
	}
	slices.Sort(places)
	if diff := cmp.Diff([]string{"kafka/keyturn", "keyturn/keyturn-leader-election"}, places); diff != "" {
		t.Errorf("roles differ (-want +got):\n%s", diff)
	}
}

func TestBothModesGrantTheSame(t *testing.T) {
	t.Parallel()
	wide := only[*rbacv1.ClusterRole](t, rendered(t, chartstest.ClusterWide))
	roles := all[*rbacv1.Role](rendered(t, chartstest.Namespaced))
	i := slices.IndexFunc(roles, func(role *rbacv1.Role) bool { return role.Name == wide.Name })
	if i < 0 {
		t.Fatalf("no Role is named %s", wide.Name)
	}
	if diff := cmp.Diff(wide.Rules, roles[i].Rules); diff != "" {
		t.Errorf("rules differ (-cluster-wide +chartstest.Namespaced):\n%s", diff)
	}
}

func TestRulesNameWhatTheyGrant(t *testing.T) {
	t.Parallel()
	for _, file := range []string{chartstest.ClusterWide, chartstest.Namespaced, chartstest.CertManager, chartstest.CertManagerNamespaced, chartstest.UserOperatorCertManager} {
		objects := rendered(t, file)
		var rules []rbacv1.PolicyRule
		for _, role := range all[*rbacv1.ClusterRole](objects) {
			rules = append(rules, role.Rules...)
		}
		for _, role := range all[*rbacv1.Role](objects) {
			rules = append(rules, role.Rules...)
		}
		for _, rule := range rules {
			for _, name := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
				if name == "*" {
					t.Errorf("%s: the rule for %v grants with a wildcard", file, rule.Resources)
				}
			}
			// A role that the operator creates grants nothing that the operator does not have: that takes these verbs.
			if slices.ContainsFunc([]string{"escalate", "bind", "impersonate"}, func(verb string) bool { return slices.Contains(rule.Verbs, verb) }) {
				t.Errorf("%s: the rule for %v could raise the operator's own rights", file, rule.Resources)
			}
		}
	}
}

func TestEveryRuleHasItsReason(t *testing.T) {
	t.Parallel()
	for _, file := range []string{chartstest.ClusterWide, chartstest.CertManager, chartstest.UserOperatorCertManager} {
		rules := 0
		lines := strings.Split(read(t, "..", "config", "install", file), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, "- apiGroups:") {
				continue
			}
			rules++
			// The two rules for leases share one reason.
			if strings.HasPrefix(lines[i-1], "#") || strings.Contains(line, "coordination.k8s.io") {
				continue
			}
			t.Errorf("%s, line %d: no comment says why the rule is there: %s %s", file, i+1, line, lines[i+1])
		}
		if rules == 0 {
			t.Errorf("%s: no rules found: the form of the manifest has changed", file)
		}
	}
}

// What a Role cannot grant is in a ClusterRole: reading whether cert-manager is there, and why a ClusterIssuer issues nothing.
func TestRightsForCertManagerStayInTheNamespacesThatAreWatched(t *testing.T) {
	t.Parallel()
	wide := only[*rbacv1.ClusterRole](t, rendered(t, chartstest.CertManager))
	objects := rendered(t, chartstest.CertManagerNamespaced)
	role, rest := only[*rbacv1.Role](t, objects), only[*rbacv1.ClusterRole](t, objects)
	if role.Namespace != "kafka" {
		t.Errorf("the Role is in namespace %s, want kafka", role.Namespace)
	}
	if diff := cmp.Diff(wide.Rules, slices.Concat(rest.Rules, role.Rules)); diff != "" {
		t.Errorf("both modes grant different rights (-all namespaces +one namespace):\n%s", diff)
	}
	var resources []string
	for _, rule := range rest.Rules {
		resources = append(resources, rule.Resources...)
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("the ClusterRole grants %s on %v", verb, rule.Resources)
			}
		}
	}
	if diff := cmp.Diff([]string{"customresourcedefinitions", "clusterissuers"}, resources); diff != "" {
		t.Errorf("the ClusterRole grants other resources (-want +got):\n%s", diff)
	}
}

// This is what the pod security level restricted asks for.
func TestOperatorsRunWithoutPrivileges(t *testing.T) {
	t.Parallel()
	want := corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	wantContainer := corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	for _, file := range []string{chartstest.ClusterWide, chartstest.UserOperator, chartstest.TopicOperator, chartstest.AccessOperator, chartstest.EtcdOperator} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			pod := only[*appsv1.Deployment](t, rendered(t, file)).Spec.Template.Spec
			if diff := cmp.Diff(&want, pod.SecurityContext); diff != "" {
				t.Errorf("the pod's security context differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&wantContainer, pod.Containers[0].SecurityContext); diff != "" {
				t.Errorf("the container's security context differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOperatorIsTold(t *testing.T) {
	t.Parallel()
	images := []string{"operator"}
	for _, of := range slices.Backward(release.All()) {
		for _, version := range slices.Backward(of.Patches) {
			images = append(images, "--kafka-image="+version+"=apache/kafka:"+version)
		}
	}
	images = append(images, "--agent-image=keyturn:0.1.0")
	options := []string{"--cluster-domain=cluster.local", "--pkcs12=true", "--network-policies=true", "--operator-namespace=keyturn", "--operator-labels=app.kubernetes.io/name=keyturn", "--leader-election-namespace=keyturn", "--leader-election-id=keyturn-operator", "--concurrent-reconciles=4", "--log-level=info"}
	tests := map[string]struct {
		file string
		want []string
	}{
		"all namespaces": {file: chartstest.ClusterWide, want: slices.Concat(images, options)},
		"one namespace":  {file: chartstest.Namespaced, want: slices.Concat(images, []string{"--watch-namespaces=kafka"}, options)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := only[*appsv1.Deployment](t, rendered(t, test.file)).Spec.Template.Spec.Containers[0]
			if diff := cmp.Diff(test.want, container.Args); diff != "" {
				t.Errorf("arguments differ (-want +got):\n%s", diff)
			}
		})
	}
}

// What the operator is told of itself is what the network policies of all clusters let in.
func TestTheOperatorIsWhomItsPoliciesLetIn(t *testing.T) {
	t.Parallel()
	deployment := only[*appsv1.Deployment](t, rendered(t, chartstest.ClusterWide))
	told := map[string]string{}
	for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
		flag, value, _ := strings.Cut(argument, "=")
		told[flag] = value
	}
	if told["--operator-namespace"] != deployment.Namespace {
		t.Errorf("the operator is in namespace %s and told %q", deployment.Namespace, told["--operator-namespace"])
	}
	key, value, _ := strings.Cut(told["--operator-labels"], "=")
	if value == "" || deployment.Spec.Template.Labels[key] != value {
		t.Errorf("the operator is told that it has the label %q, its pods have %v", told["--operator-labels"], deployment.Spec.Template.Labels)
	}
}

func TestDisruptionBudgetAndServiceSelectTheOperator(t *testing.T) {
	t.Parallel()
	objects := rendered(t, chartstest.ClusterWide)
	deployment := only[*appsv1.Deployment](t, objects)
	if *deployment.Spec.Replicas != 2 {
		t.Errorf("got %d replicas, want 2", *deployment.Spec.Replicas)
	}
	selected := deployment.Spec.Selector.MatchLabels
	if diff := cmp.Diff(selected, only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("the budget selects others (-deployment +budget):\n%s", diff)
	}
	if diff := cmp.Diff(selected, only[*corev1.Service](t, objects).Spec.Selector); diff != "" {
		t.Errorf("the service selects others (-deployment +service):\n%s", diff)
	}
	for key, value := range selected {
		if deployment.Spec.Template.Labels[key] != value {
			t.Errorf("the pods lack the label %s=%s", key, value)
		}
	}
}
