package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// caller is a pod that wants to connect.
type caller struct {
	namespace string
	labels    labels.Set
}

// lets says whom a policy lets in, as Kubernetes documents it. Namespaces have no
// labels but their name.
func lets(t *testing.T, policy *networkingv1.NetworkPolicy, from caller, port int32) bool {
	t.Helper()
	return slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
		return rule.Ports[0].Port.IntVal == port && (len(rule.From) == 0 ||
			slices.ContainsFunc(rule.From, func(peer networkingv1.NetworkPolicyPeer) bool { return isPeer(t, policy, peer, from) }))
	})
}

func isPeer(t *testing.T, policy *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, from caller) bool {
	t.Helper()
	here := from.namespace == policy.Namespace
	if peer.NamespaceSelector != nil {
		here = matches(t, peer.NamespaceSelector, labels.Set{"kubernetes.io/metadata.name": from.namespace})
	}
	return here && (peer.PodSelector == nil || matches(t, peer.PodSelector, from.labels))
}

func matches(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	must(t, err)
	return s.Matches(set)
}

// policyOf is the policy of a cluster as the API server gets it.
func policyOf(t *testing.T, in Input) *networkingv1.NetworkPolicy {
	t.Helper()
	cluster, _ := resolved(t, in)
	rendered, wanted := cluster.NetworkPolicy()
	if !wanted {
		t.Fatal("there is no policy")
	}
	data, err := json.Marshal(rendered)
	must(t, err)
	policy := &networkingv1.NetworkPolicy{}
	must(t, json.Unmarshal(data, policy))
	return policy
}

func operatorPod() caller {
	return caller{"keyturn", labels.Set{"app.kubernetes.io/name": "keyturn", "pod-template-hash": "x"}}
}

func nodePod(namespace string) caller {
	return caller{namespace, labels.Set{KindLabel: kafkaKind, ClusterLabel: "my", NameLabel: "my-kafka"}}
}

func component(name string) caller { return caller{"kafka", labels.Set{NameLabel: name}} }

func TestWhoMayConnectToTheNodes(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{exampleListener("tls", 9093)}
	policy := policyOf(t, in)
	if !matches(t, &policy.Spec.PodSelector, nodePod("kafka").labels) || !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) {
		t.Fatalf("the policy is not about what comes to the nodes: %+v", policy.Spec)
	}
	ports := []int32{8080, 8443, 9090, 9091, 9093, 9404}
	for name, test := range map[string]struct {
		from caller
		to   []int32
	}{
		"a stranger of the namespace":               {caller{"kafka", labels.Set{"app": "shop"}}, []int32{9093}},
		"a stranger of another namespace":           {caller{"shop", labels.Set{"app": "shop"}}, []int32{9093}},
		"the operator":                              {operatorPod(), []int32{8443, 9090, 9091, 9093}},
		"who bears the operator's labels elsewhere": {caller{"shop", operatorPod().labels}, []int32{9093}},
		"another pod of the operator's namespace":   {caller{"keyturn", labels.Set{"app": "shop"}}, []int32{9093}},
		"a node": {nodePod("kafka"), []int32{9090, 9091, 9093}},
		"a node of a namesake in another namespace":  {nodePod("other"), []int32{9093}},
		"a node of another cluster of the namespace": {caller{"kafka", labels.Set{KindLabel: kafkaKind, ClusterLabel: "other", NameLabel: "other-kafka"}}, []int32{9093}},
		"the entity operator":                        {component("my-entity-operator"), []int32{9091, 9093}},
		"the exporter":                               {component("my-kafka-exporter"), []int32{9091, 9093}},
		"Cruise Control":                             {component("my-cruise-control"), []int32{9091, 9093}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, port := range ports {
				if got := lets(t, policy, test.from, port); got != slices.Contains(test.to, port) {
					t.Errorf("%d: let in is %t", port, got)
				}
			}
		})
	}
}

func TestAnOperatorOfTheSameNamespaceIsLetIn(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Settings.NetworkPolicies.OperatorNamespace = "kafka"
	policy := policyOf(t, in)
	here, elsewhere := operatorPod(), operatorPod()
	here.namespace = "kafka"
	for _, port := range []int32{8443, 9090, 9091} {
		if !lets(t, policy, here, port) || lets(t, policy, elsewhere, port) {
			t.Errorf("%d: the operator is refused, or one of another namespace is let in", port)
		}
	}
}

// Operators of one cluster are known by the labels that the chart gives their pods.
func TestTheOperatorsOfOneClusterAreLetInByTheLabelsOfTheChart(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Name = "my-cluster"
	in.Pools[0].Labels[ClusterLabel] = "my-cluster"
	policy := policyOf(t, in)
	for _, name := range []string{"user-operator", "topic-operator"} {
		pod := caller{"keyturn", podLabels(t, "keyturn-"+name+".yaml")}
		if !lets(t, policy, pod, ReplicationPort) || lets(t, policy, pod, ControlPlanePort) {
			t.Errorf("the pod of the %s with labels %v is refused, or let in to controllers", name, pod.labels)
		}
		pod.labels[ClusterLabel] = "other"
		if lets(t, policy, pod, ReplicationPort) {
			t.Errorf("the %s of another cluster is let in", name)
		}
	}
}

// podLabels are those of the pods of the Deployment in a file that is made from the chart.
func podLabels(t *testing.T, file string) labels.Set {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "install", file))
	must(t, err)
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var deployment appsv1.Deployment
		must(t, yaml.Unmarshal([]byte(document), &deployment))
		if deployment.Kind == "Deployment" {
			return deployment.Spec.Template.Labels
		}
	}
	t.Fatalf("%s has no Deployment", file)
	return nil
}

func TestAListenerWithPeersIsForThemAlone(t *testing.T) {
	t.Parallel()
	shop := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
	in := exampleInput()
	in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{exampleListener("tls", 9093), exampleListener("open", 9094)}
	in.Kafka.Spec.Kafka.Listeners[0].NetworkPolicyPeers = []networkingv1.NetworkPolicyPeer{
		{PodSelector: shop},
		{PodSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "front"}}},
	}
	in.Kafka.Spec.Kafka.Listeners[1].NetworkPolicyPeers = []networkingv1.NetworkPolicyPeer{}
	policy := policyOf(t, in)
	for name, test := range map[string]struct {
		from caller
		want bool
	}{
		"a peer":                               {caller{"kafka", labels.Set{"app": "shop"}}, true},
		"a peer's namesake in another place":   {caller{"shop", labels.Set{"app": "shop"}}, false},
		"any pod of a namespace that is named": {caller{"front", labels.Set{}}, true},
		"a stranger":                           {caller{"kafka", labels.Set{"app": "mail"}}, false},
		"a node, which uses another listener":  {nodePod("kafka"), false},
	} {
		if got := lets(t, policy, test.from, 9093); got != test.want {
			t.Errorf("%s: let in is %t", name, got)
		}
		if !lets(t, policy, test.from, 9094) {
			t.Errorf("%s is refused by a listener with an empty list of peers", name)
		}
	}
}

func TestPeersOfWhichNoPolicyCanBeMadeAreRefused(t *testing.T) {
	t.Parallel()
	block := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	pods := func(selector metav1.LabelSelector) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: &selector}
	}
	requirement := func(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: operator, Values: values}}}
	}
	both := block("10.0.0.0/8")
	both.NamespaceSelector = &metav1.LabelSelector{}
	for name, test := range map[string]struct {
		peer networkingv1.NetworkPolicyPeer
		says string
	}{
		"nobody":                                 {networkingv1.NetworkPolicyPeer{}, "is empty: give it a podSelector"},
		"addresses beside a selector":            {both, "beside selectors"},
		"no addresses":                           {block(""), `cidr ""`},
		"one address":                            {block("10.1.2.3"), `cidr "10.1.2.3"`},
		"an address that is written in octal":    {block("010.0.0.0/8"), "010.0.0.0/8"},
		"an IPv4 address in the form of an IPv6": {block("::ffff:10.0.0.0/104"), "no range"},
		"an exception outside of the range":      {block("10.0.0.0/8", "11.0.0.0/16"), "11.0.0.0/16"},
		"an exception that is the whole range":   {block("10.0.0.0/8", "10.0.0.0/8"), "smaller part"},
		"an exception that is no range":          {block("10.0.0.0/8", "10.0.0.1"), "10.0.0.1"},
		"a label that cannot be":                 {pods(metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}), "podSelector"},
		"a value that cannot be":                 {pods(metav1.LabelSelector{MatchLabels: map[string]string{"app": "c d"}}), "c d"},
		"an operator that is not known":          {pods(requirement("Near")), "Near"},
		"one of no values":                       {pods(requirement("In")), "values"},
		"values that nobody compares":            {pods(requirement("Exists", "x")), "values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			in.Kafka.Spec.Kafka.Listeners[0].NetworkPolicyPeers = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}, test.peer}
			_, findings := Resolve(in)
			err := findings.Err()
			if err == nil || !strings.Contains(err.Error(), "listener tls: networkPolicyPeers[1]") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want one that says %q", err, test.says)
			}
		})
	}
}

func TestPeersThatKeepNobodyOutAreNamed(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Settings.NetworkPolicies = nil
	in.Kafka.Spec.Kafka.Listeners[0].NetworkPolicyPeers = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	cluster, findings := resolved(t, in)
	if _, wanted := cluster.NetworkPolicy(); wanted {
		t.Error("a policy is made that was switched off")
	}
	if len(findings.Warnings) != 1 || findings.Warnings[0].Reason != ReasonNetworkPolicies || !strings.Contains(findings.Warnings[0].Message, "listener tls") {
		t.Errorf("warnings are %+v", findings.Warnings)
	}
}
