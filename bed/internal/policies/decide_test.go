package policies

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	nodeAddress     = "10.244.0.5"
	shopAddress     = "10.244.0.6"
	operatorAddress = "10.244.0.7"
	elsewhere       = "10.9.0.1"
)

func pod(namespace, name, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Status:     corev1.PodStatus{PodIP: address, Phase: corev1.PodRunning},
	}
}

// world has a node in the namespace kafka that policies are about, a shop beside it, and an operator in another namespace.
func world(rules ...networkingv1.NetworkPolicyIngressRule) World {
	node := pod("kafka", "node", nodeAddress)
	node.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "tls", ContainerPort: 9093}}}}
	return World{
		Policies: []*networkingv1.NetworkPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "nodes"},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: labelled("node"), Ingress: rules},
		}},
		Pods: []*corev1.Pod{node, pod("kafka", "shop", shopAddress), pod("operators", "operator", operatorAddress)},
		Namespaces: []*corev1.Namespace{
			{ObjectMeta: metav1.ObjectMeta{Name: "kafka", Labels: map[string]string{"name": "kafka"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "operators", Labels: map[string]string{"name": "operators"}}},
		},
	}
}

func labelled(app string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func rule(from []networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{From: from, Ports: ports}
}

func peers(list ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer { return list }

func podsOf(app string) networkingv1.NetworkPolicyPeer {
	selector := labelled(app)
	return networkingv1.NetworkPolicyPeer{PodSelector: &selector}
}

func inNamespace(name string, peer networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyPeer {
	peer.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
	return peer
}

func block(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func port(value intstr.IntOrString) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Port: &value}
}

func number(n int32) networkingv1.NetworkPolicyPort { return port(intstr.FromInt32(n)) }

// lets reports whether a TCP packet to a pod passes what was decided.
func lets(all []guarded, from, to string, at int32) bool {
	for _, g := range all {
		if g.address != netip.MustParseAddr(to) {
			continue
		}
		for _, d := range g.doors {
			if d.protocol != "" && (d.protocol != corev1.ProtocolTCP || at < d.first || at > d.last) {
				continue
			}
			if d.anybody || d.admits(netip.MustParseAddr(from)) {
				return true
			}
		}
		return false
	}
	return true
}

func (d door) admits(address netip.Addr) bool {
	for _, s := range d.from {
		in := s.within.Contains(address)
		for _, except := range s.except {
			in = in && !except.Contains(address)
		}
		if in {
			return true
		}
	}
	return false
}

func TestWhoComesIn(t *testing.T) {
	t.Parallel()
	udp := corev1.ProtocolUDP
	overUDP, upTo := number(9090), number(9090)
	overUDP.Protocol, upTo.EndPort = &udp, new(int32(9091))
	type ask struct {
		from string
		port int32
	}
	for name, test := range map[string]struct {
		rules   []networkingv1.NetworkPolicyIngressRule
		in, out []ask
	}{
		"without a rule, nobody":                        {nil, nil, []ask{{shopAddress, 9090}, {elsewhere, 9090}}},
		"to an open port, everybody":                    {[]networkingv1.NetworkPolicyIngressRule{rule(nil, number(9093))}, []ask{{shopAddress, 9093}, {elsewhere, 9093}}, []ask{{shopAddress, 9090}}},
		"by an open rule, everybody everywhere":         {[]networkingv1.NetworkPolicyIngressRule{rule(nil)}, []ask{{shopAddress, 9093}, {elsewhere, 1}}, nil},
		"a pod of the policy's namespace":               {[]networkingv1.NetworkPolicyIngressRule{rule(peers(podsOf("shop")), number(9090))}, []ask{{shopAddress, 9090}}, []ask{{operatorAddress, 9090}, {shopAddress, 9091}}},
		"a pod of another, only if it is named":         {[]networkingv1.NetworkPolicyIngressRule{rule(peers(podsOf("operator")), number(9090))}, nil, []ask{{operatorAddress, 9090}}},
		"a pod of a namespace that is named":            {[]networkingv1.NetworkPolicyIngressRule{rule(peers(inNamespace("operators", podsOf("operator"))), number(9090))}, []ask{{operatorAddress, 9090}}, []ask{{shopAddress, 9090}}},
		"another pod of a namespace that is named":      {[]networkingv1.NetworkPolicyIngressRule{rule(peers(inNamespace("operators", podsOf("shop"))), number(9090))}, nil, []ask{{operatorAddress, 9090}, {shopAddress, 9090}}},
		"every pod of a namespace":                      {[]networkingv1.NetworkPolicyIngressRule{rule(peers(inNamespace("kafka", networkingv1.NetworkPolicyPeer{})))}, []ask{{shopAddress, 9090}}, []ask{{operatorAddress, 9090}}},
		"a peer that names nobody":                      {[]networkingv1.NetworkPolicyIngressRule{rule(peers(networkingv1.NetworkPolicyPeer{}))}, nil, []ask{{shopAddress, 9090}}},
		"addresses but for some of them":                {[]networkingv1.NetworkPolicyIngressRule{rule(peers(block("10.0.0.0/8", "10.9.0.0/16")))}, []ask{{shopAddress, 9090}}, []ask{{elsewhere, 9090}}},
		"addresses of which nobody knows the exception": {[]networkingv1.NetworkPolicyIngressRule{rule(peers(block("10.0.0.0/8", "x")))}, nil, []ask{{shopAddress, 9090}}},
		"a port by its name":                            {[]networkingv1.NetworkPolicyIngressRule{rule(nil, port(intstr.FromString("tls")))}, []ask{{shopAddress, 9093}}, []ask{{shopAddress, 9090}}},
		"a name that no port has":                       {[]networkingv1.NetworkPolicyIngressRule{rule(nil, port(intstr.FromString("plain")))}, nil, []ask{{shopAddress, 9093}}},
		"a range of ports":                              {[]networkingv1.NetworkPolicyIngressRule{rule(nil, upTo)}, []ask{{shopAddress, 9090}, {shopAddress, 9091}}, []ask{{shopAddress, 9092}}},
		"another protocol":                              {[]networkingv1.NetworkPolicyIngressRule{rule(nil, overUDP)}, nil, []ask{{shopAddress, 9090}}},
		"the sum of all rules":                          {[]networkingv1.NetworkPolicyIngressRule{rule(nil, number(1)), rule(nil, number(2))}, []ask{{shopAddress, 1}, {shopAddress, 2}}, []ask{{shopAddress, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := decide(world(test.rules...))
			for _, a := range test.in {
				if !lets(all, a.from, nodeAddress, a.port) {
					t.Errorf("%s is kept from %d", a.from, a.port)
				}
			}
			for _, a := range test.out {
				if lets(all, a.from, nodeAddress, a.port) {
					t.Errorf("%s is let in to %d", a.from, a.port)
				}
			}
			if !lets(all, elsewhere, shopAddress, 80) {
				t.Error("a pod that no policy is about is guarded")
			}
		})
	}
}

func TestWhoIsNotGuarded(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w World){
		"a pod without an address":         func(w World) { w.Pods[0].Status.PodIP = "" },
		"a pod that has ended":             func(w World) { w.Pods[0].Status.Phase = corev1.PodSucceeded },
		"a pod in the network of its node": func(w World) { w.Pods[0].Spec.HostNetwork = true },
		"a pod of another namespace":       func(w World) { w.Pods[0].Namespace = "operators" },
		"whoever a policy for what goes out names": func(w World) {
			w.Policies[0].Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world()
			change(w)
			if all := decide(w); len(all) > 0 {
				t.Errorf("%+v", all)
			}
		})
	}
}

// Its address may be another's by now.
func TestAPodThatHasEndedIsNobodysPeer(t *testing.T) {
	t.Parallel()
	w := world(rule(peers(podsOf("shop"))))
	w.Pods[1].Status.Phase = corev1.PodFailed
	if lets(decide(w), shopAddress, nodeAddress, 9090) {
		t.Error("whoever has its address now is let in")
	}
}
