package controller

import (
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	domains "github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

const (
	// applicationLead is how long applications get to read a new anchor before the
	// first node relies on it, where no cross certificate helps those who have not.
	applicationLead = 2*time.Minute + 5*time.Second
	// restartMargin bounds how long before the end of what its Raft client holds a
	// node is restarted.
	restartMargin = 7 * authority.Day
)

// domain is one authority with the trust in it.
type domain struct {
	domains.Decided

	kind authorities.Kind
	// input is what the authority was decided from.
	input authority.Input
	// made is a key that a decision of the reconcile has demanded.
	made pki.PrivateKey
	// remarks name entries and requests in its Secrets that are ignored.
	remarks []authority.Remark
}

// decideTrust decides for both CAs which certificates are trusted and which key signs. It
// decides from the stored objects and from the agents' reports.
func (c *decided) decideTrust() {
	cluster := c.evidence()
	var lost []trust.MemberID
	for _, kind := range kinds() {
		d := c.domain(kind)
		seen := &domains.Seen{CA: d.input, Members: cluster, Lost: lost, Before: c.recorded[string(kind)], Made: c.made}
		of := domains.Kind{Name: domainOf(kind), Own: contract.ClusterDomain, Retirement: retirementOf(kind)}
		d.kind, d.Decided = kind, *of.Trust(seen, d.Decision, d.Problems)
		if kind == authorities.Cluster {
			lost = lostBy(d.Plan)
		}
	}
}

// lostBy are the members whose Secret cannot be written in any domain, because that of their certificates cannot sign for it.
func lostBy(own trust.Plan) []trust.MemberID {
	var lost []trust.MemberID
	for _, member := range own.NeedAttention {
		if member.Reason == trust.SecretLost {
			lost = append(lost, member.Member)
		}
	}
	return lost
}

// trustMoves reports whether a domain knows other anchors than its target and those
// that are kept beside it.
func (c *decided) trustMoves() bool {
	return slices.ContainsFunc(kinds(), func(kind authorities.Kind) bool {
		stored := authority.StoredAnchors(c.stored(kind.TrustedCertsSecret(c.kafka.Name)))
		decided := c.domain(kind).Decision
		stays := append(slices.Clone(decided.Kept), decided.Target())
		return decided.Target() == nil || len(stored) != len(stays) || slices.ContainsFunc(stored, func(a authority.Anchor) bool {
			return !slices.ContainsFunc(stays, a.Certificate.Equal)
		})
	})
}

func domainOf(kind authorities.Kind) publication.Domain {
	if kind == authorities.Clients {
		return contract.ClientsDomain
	}
	return contract.ClusterDomain
}

// retirementOf is when an old CA is removed. The operator does not know which certificates
// clients present, so an old clients CA stays until it expires or a person distrusts it.
func retirementOf(kind authorities.Kind) trust.Retirement {
	if kind == authorities.Clients {
		return trust.RetireExpired
	}
	return trust.RetireUnused
}

// evidence gathers what is known of the nodes and the operator.
func (c *decided) evidence() evidence.Cluster {
	cluster := evidence.Cluster{Now: c.now, Policy: c.policy(), Own: contract.ClusterDomain, Agents: roles.Agent()}
	for _, node := range c.allNodes() {
		reported := c.reports[node.Pod]
		entry := evidence.Node{
			Name: node.Pod, Roles: roles.Of(c.cluster.Stores(node), c.listening(node)),
			Published: c.published(node.Pod), Presents: c.presents(node.Pod, node.Pod+".crt"),
			Given: givenTo(c.pods[node.Pod], c.cluster.Stores(node)),
			State: processStateOf(c.podNamed(node.Pod), reported), Report: reported.report, Since: reported.waitingSince(c.published(node.Pod), c.now),
			Leaving: !c.describes(node.Pod),
		}
		if c.clusterCA.issuance() == trust.Offered && !isUsable(c.secrets[node.Pod], node.Pod) {
			entry.Published, entry.Presents = publication.Publication{}, nil
		}
		if entry.Leaving {
			entry.Since = reported.overdueSince(c.pods[node.Pod], entry.Since, c.now)
		}
		cluster.Nodes = append(cluster.Nodes, entry)
	}
	for _, at := range c.companions {
		cluster.Companions = append(cluster.Companions, at.evidence(c.polled))
	}
	cluster.Operator = c.presents(c.kafka.Name+operatorSecretSuffix, operatorCertKey)
	return cluster
}

// isUsable reports whether a Secret holds a certificate with its key. Without, its holder is given nothing.
func isUsable(secret corev1.Secret, name string) bool {
	_, err := pki.KeyPair(secret.Data[name+".crt"], secret.Data[name+".key"])
	return err == nil
}

// presents is what a Secret gives its holder to present; nothing if it cannot be
// read.
func (o *observation) presents(secret, key string) []*x509.Certificate {
	chain, err := pki.ParseBundle(o.secrets[secret].Data[key])
	if err != nil {
		return nil
	}
	return chain
}

// policy is what people asked for.
func (o *observation) policy() trust.Policy {
	policy := trust.Policy{Lead: applicationLead, Paused: o.handsOff()}
	policy.RestartMargin = min(restartMargin, model.CASpec(o.caSpec(authorities.Cluster)).Usable().Renewal()/2)
	if model.Says(o.kafka.Annotations, model.ReloadAnnotation, "false") {
		policy.Reload = trust.RestartOnly
		policy.ReloadRefused = "the annotation " + model.ReloadAnnotation + " is false"
	}
	return policy
}

// loading tells nodes how to load what is published.
func (o *observation) loading() publication.Loading {
	if o.policy().Reload == trust.RestartOnly {
		return publication.LoadByRestart
	}
	return publication.LoadByReload
}

// processStateOf says what is known of the process in the pod of a node; nil stands for
// one that was looked for by its name and does not exist. A pod that was never given
// a machine has no process, and one whose containers have ended for good neither.
func processStateOf(pod *corev1.Pod, reported agentReport) evidence.ProcessState {
	switch {
	case pod == nil || pod.Spec.NodeName == "":
		return evidence.Absent
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return evidence.Absent
	case reported.known:
		return evidence.Running
	default:
		return evidence.Unknown
	}
}

// issuance is who signs by the CA.
func (d *domain) issuance() trust.Issuance { return domains.IssuanceOf(d.input.Spec, d.Decision) }

// signer is the authority with the key, if that is at hand.
func (d *domain) signer(key trust.KeyID) (pki.Authority, bool) {
	signer := d.SignerBy(key)
	return signer, !signer.IsZero()
}

// accepted reports whether the operator accepts nodes by the anchor. It accepts every known
// anchor, so that it never locks itself out. A compromised one it accepts only until every
// node is known to present a certificate of another.
func (d *domain) accepted(anchor trust.Anchor) bool {
	if !anchor.Compromised {
		return true
	}
	for _, member := range d.Snapshot.Members {
		for _, role := range member.Roles {
			if member.Kind != trust.Node || !role.Presents || role.Plane.Identity == trust.AtStart {
				continue
			}
			if role.Evidence.Process != trust.ProcessRunning || role.Evidence.Loaded.Identity.Signer == anchor.Key {
				return true
			}
		}
	}
	return false
}
