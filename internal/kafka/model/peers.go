package model

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// checkPeers rejects peers of a listener that Kubernetes would not accept in a policy, and warns
// of peers that have no effect. It repeats the schema's checks, because the resource may have
// been stored before the schema had them.
func (r *resolver) checkPeers(spec *kafkav1.Listener) {
	for i := range spec.NetworkPolicyPeers {
		r.checkPeer(spec.Name, i, &spec.NetworkPolicyPeers[i])
	}
	if len(spec.NetworkPolicyPeers) > 0 && r.in.Settings.NetworkPolicies == nil {
		r.warnf(r.kafkaObject(), ReasonNetworkPolicies,
			"listener %s: networkPolicyPeers does not restrict connections, because the operator creates no network policies: install it with networkPolicyGeneration: true, or create a policy of your own and remove the field", spec.Name)
	}
}

func (r *resolver) checkPeer(listener string, i int, peer *networkingv1.NetworkPolicyPeer) {
	selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
	switch {
	case peer.IPBlock == nil && !selects:
		r.errorf(r.kafkaObject(), "listener %s: networkPolicyPeers[%d] is empty: give it a podSelector, a namespaceSelector or an ipBlock, or leave networkPolicyPeers out to let all clients in", listener, i)
	case peer.IPBlock != nil && selects:
		r.errorf(r.kafkaObject(), "listener %s: networkPolicyPeers[%d] has an ipBlock beside selectors: give the ipBlock a peer of its own", listener, i)
	case peer.IPBlock != nil:
		r.checkIPBlock(listener, i, peer.IPBlock)
	default:
		r.checkSelector(listener, i, "podSelector", peer.PodSelector)
		r.checkSelector(listener, i, "namespaceSelector", peer.NamespaceSelector)
	}
}

func (r *resolver) checkSelector(listener string, i int, name string, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	problems := validation.ValidateLabelSelector(selector, validation.LabelSelectorValidationOptions{}, field.NewPath(name))
	for _, problem := range problems {
		r.errorf(r.kafkaObject(), "listener %s: networkPolicyPeers[%d].%s", listener, i, problem)
	}
}

func (r *resolver) checkIPBlock(listener string, i int, block *networkingv1.IPBlock) {
	whole, ok := addressRange(block.CIDR)
	if !ok {
		r.errorf(r.kafkaObject(), "listener %s: networkPolicyPeers[%d].ipBlock.cidr %q is no range of addresses: write it like 10.1.0.0/16 or 2001:db8::/32", listener, i, block.CIDR)
		return
	}
	for _, text := range block.Except {
		part, ok := addressRange(text)
		if !ok || part.Bits() <= whole.Bits() || !whole.Contains(part.Addr()) {
			r.errorf(r.kafkaObject(), "listener %s: networkPolicyPeers[%d].ipBlock.except %q is no range of addresses within %s: write a smaller part of it", listener, i, text, block.CIDR)
		}
	}
}

// addressRange reads a range in the one form that every version of Kubernetes takes.
func addressRange(text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	return prefix, err == nil && !prefix.Addr().Is4In6()
}
