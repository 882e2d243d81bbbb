package policies

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// World is what the policies are enforced in.
type World struct {
	Policies   []*networkingv1.NetworkPolicy
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
}

// guarded is a pod that some policy is about: nobody comes in but whom a door lets in.
type guarded struct {
	address netip.Addr
	doors   []door
}

// door lets sources in to a range of ports of one protocol.
type door struct {
	protocol    corev1.Protocol
	first, last int32
	from        []source
	// anybody is let in, whatever from says.
	anybody bool
}

// source is a range of addresses without some parts of it.
type source struct {
	within netip.Prefix
	except []netip.Prefix
}

// decide says which pods are guarded, and by which doors, sorted by address. A policy that cannot be read lets nobody in.
func decide(world World) []guarded {
	var all []guarded
	for _, pod := range world.Pods {
		address, running := addressOf(pod)
		if !running {
			continue
		}
		g := guarded{address: address}
		about := false
		for _, policy := range world.Policies {
			if !concerns(policy, pod) {
				continue
			}
			about = true
			for i := range policy.Spec.Ingress {
				g.doors = append(g.doors, world.doors(policy, &policy.Spec.Ingress[i], pod)...)
			}
		}
		if about {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b guarded) int { return a.address.Compare(b.address) })
	return all
}

// addressOf is a pod's own IPv4 address; false for one that has none, shares the node's, or has ended and may see its
// address given to another.
func addressOf(pod *corev1.Pod) (netip.Addr, bool) {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return address, err == nil && address.Is4() && !pod.Spec.HostNetwork && !ended
}

// concerns reports whether a policy is about what comes in to a pod.
func concerns(policy *networkingv1.NetworkPolicy, pod *corev1.Pod) bool {
	ingress := len(policy.Spec.PolicyTypes) == 0 || slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
	return ingress && policy.Namespace == pod.Namespace && selects(&policy.Spec.PodSelector, pod.Labels)
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

func (w World) doors(policy *networkingv1.NetworkPolicy, rule *networkingv1.NetworkPolicyIngressRule, pod *corev1.Pod) []door {
	from := w.sources(policy.Namespace, rule.From)
	anybody := len(rule.From) == 0
	if len(rule.Ports) == 0 {
		return []door{{from: from, anybody: anybody}}
	}
	var doors []door
	for _, port := range rule.Ports {
		d := door{protocol: corev1.ProtocolTCP, from: from, anybody: anybody}
		if port.Protocol != nil {
			d.protocol = *port.Protocol
		}
		var exists bool
		if d.first, d.last, exists = portsOf(pod, port, d.protocol); exists {
			doors = append(doors, d)
		}
	}
	return doors
}

// portsOf are the ports that a rule names; false for a name that the pod does not know. A rule without a port means all.
func portsOf(pod *corev1.Pod, port networkingv1.NetworkPolicyPort, protocol corev1.Protocol) (first, last int32, exists bool) {
	const highest = 65535
	switch {
	case port.Port == nil:
		return 0, highest, true
	case port.Port.Type == intstr.String:
		first, exists = namedPort(pod, port.Port.StrVal, protocol)
		return first, first, exists
	case port.EndPort != nil:
		return port.Port.IntVal, *port.EndPort, true
	default:
		return port.Port.IntVal, port.Port.IntVal, true
	}
}

func namedPort(pod *corev1.Pod, name string, protocol corev1.Protocol) (int32, bool) {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == name && cmp.Or(port.Protocol, corev1.ProtocolTCP) == protocol {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

// sources are the addresses of the peers of a rule of a namespace, sorted and without repetitions.
func (w World) sources(namespace string, peers []networkingv1.NetworkPolicyPeer) []source {
	var found []source
	for i := range peers {
		if block := peers[i].IPBlock; block != nil {
			if s, ok := sourceOf(block); ok {
				found = append(found, s)
			}
			continue
		}
		for _, pod := range w.Pods {
			address, running := addressOf(pod)
			if running && w.isPeer(&peers[i], namespace, pod) {
				found = append(found, source{within: netip.PrefixFrom(address, address.BitLen())})
			}
		}
	}
	slices.SortFunc(found, func(a, b source) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.CompactFunc(found, func(a, b source) bool { return a.within == b.within && slices.Equal(a.except, b.except) })
}

// isPeer reports whether selectors choose a pod, as seen from a namespace.
func (w World) isPeer(peer *networkingv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	if peer.PodSelector != nil && !selects(peer.PodSelector, pod.Labels) {
		return false
	}
	if peer.NamespaceSelector == nil {
		return peer.PodSelector != nil && pod.Namespace == namespace
	}
	at := slices.IndexFunc(w.Namespaces, func(n *corev1.Namespace) bool { return n.Name == pod.Namespace })
	return at >= 0 && selects(peer.NamespaceSelector, w.Namespaces[at].Labels)
}

// sourceOf reads a range of addresses; false for one that is not of IPv4, which no pod here has.
func sourceOf(block *networkingv1.IPBlock) (source, bool) {
	within, err := netip.ParsePrefix(block.CIDR)
	if err != nil || !within.Addr().Is4() {
		return source{}, false
	}
	s := source{within: within.Masked()}
	for _, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil {
			return source{}, false
		}
		s.except = append(s.except, except.Masked())
	}
	return s, true
}
