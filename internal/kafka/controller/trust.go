package controller

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	decided "github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/kube"
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
	authority.Decision

	kind authorities.Kind
	// made is a key that a decision of the pass has demanded.
	made pki.PrivateKey
	// usersText is true of a CA whose ca.crt the user writes.
	usersText bool
	// refused is what a person has to put right in its Secrets.
	refused []authority.Problem
	// remarks name what somebody put into its Secrets and is ignored.
	remarks []authority.Remark
	// known are the CA certificates of the snapshot.
	known    decided.Known
	snapshot trust.Snapshot
	plan     trust.Plan
}

// decideTrust decides, for both authorities, whom to trust and who signs, from
// what is written and from what the agents have said.
func (p *pass) decideTrust() {
	cluster := p.evidence()
	for _, kind := range kinds() {
		d := p.domain(kind)
		of := evidence.Domain{
			Name: domainOf(kind), Authority: d.Decision,
			Stored:           authority.StoredAnchors(p.stored(kind.TrustedCertsSecret(p.kafka.Name))),
			ApplicationSince: p.applicationSince(kind, d.Published),
			Retirement:       retirementOf(kind),
		}
		d.kind, d.known = kind, evidence.Known(cluster, of)
		cluster.Policy.Issuance = issuanceBy(p, kind)
		snapshot := evidence.Snapshot(cluster, of, d.known)
		if of.Name != cluster.Own {
			markLost(snapshot.Members, p.clusterCA.plan)
		}
		d.snapshot = p.recorded[string(kind)].Lasting(snapshot, p.made)
		d.plan = trust.Decide(d.snapshot)
		d.usersText = model.CASpec(p.caSpec(kind)).Source == authority.UserProvided
		if d.usersText {
			d.plan.Application = d.snapshot.Application.Anchors // it is the user who writes it
		}
	}
}

// markLost marks the members whose Secret cannot be written in any domain, because that of
// their certificates cannot sign for it.
func markLost(members []trust.Member, own trust.Plan) {
	for i := range members {
		members[i].SecretLost = slices.ContainsFunc(own.Stranded, func(a trust.Apart) bool {
			return a.Member == members[i].ID && a.Reason == trust.SecretLost
		})
	}
}

// trustMoves reports whether a domain knows other anchors than its target and those
// that are kept beside it.
func (p *pass) trustMoves() bool {
	return slices.ContainsFunc(kinds(), func(kind authorities.Kind) bool {
		stored := authority.StoredAnchors(p.stored(kind.TrustedCertsSecret(p.kafka.Name)))
		decided := p.domain(kind).Decision
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

// retirementOf: nobody here knows what users present, so an old clients CA stays
// until it expires or a person distrusts it.
func retirementOf(kind authorities.Kind) trust.Retirement {
	if kind == authorities.Clients {
		return trust.RetireExpired
	}
	return trust.RetireUnused
}

// evidence gathers what is known of the nodes and the operator.
func (p *pass) evidence() evidence.Cluster {
	c := evidence.Cluster{Now: p.now, Policy: p.policy(), Own: contract.ClusterDomain, Agents: roles.Agent()}
	for _, node := range p.allNodes() {
		said := p.heard[node.Pod]
		entry := evidence.Node{
			Name: node.Pod, Roles: roles.Of(p.cluster.Stores(node), p.listening(node)),
			Published: p.published(node.Pod), Presents: p.presents(node.Pod, node.Pod+".crt"),
			Given:   givenTo(p.pods[node.Pod], p.cluster.Stores(node)),
			Witness: witnessOf(p.podNamed(node.Pod), said), Report: said.report, Since: said.sinceGiven(p.published(node.Pod), p.now),
			Leaving: !p.describes(node.Pod),
		}
		if issuanceOf(p) == trust.Offered && !isUsable(p.secrets[node.Pod], node.Pod) {
			entry.Published, entry.Presents = publication.Publication{}, nil
		}
		if entry.Leaving {
			entry.Since = said.sinceLeaving(p.pods[node.Pod], entry.Since, p.now)
		}
		c.Nodes = append(c.Nodes, entry)
	}
	for _, at := range p.companions {
		c.Companions = append(c.Companions, at.evidence(p))
	}
	c.Operator = p.presents(p.kafka.Name+operatorSecretSuffix, operatorCertKey)
	return c
}

// isUsable reports whether a Secret holds a certificate with its key. Without, its holder is given nothing.
func isUsable(secret corev1.Secret, name string) bool {
	_, err := pki.KeyPair(secret.Data[name+".crt"], secret.Data[name+".key"])
	return err == nil
}

// presents is what a Secret gives its holder to present; nothing if it cannot be
// read.
func (p *pass) presents(secret, key string) []*x509.Certificate {
	chain, err := pki.ParseBundle(p.secrets[secret].Data[key])
	if err != nil {
		return nil
	}
	return chain
}

// policy is what people asked for.
func (p *pass) policy() trust.Policy {
	policy := trust.Policy{Lead: applicationLead, Paused: p.handsOff()}
	policy.RestartMargin = min(restartMargin, model.CASpec(p.caSpec(authorities.Cluster)).Usable().Renewal()/2)
	if model.Says(p.kafka.Annotations, model.ReloadAnnotation, "false") {
		policy.Reload = trust.RestartOnly
		policy.ReloadRefused = "the annotation " + model.ReloadAnnotation + " is false"
	}
	return policy
}

// loading tells nodes how to load what is published.
func (p *pass) loading() publication.Loading {
	if p.policy().Reload == trust.RestartOnly {
		return publication.LoadByRestart
	}
	return publication.LoadByReload
}

// witnessOf says what is known of the process in the pod of a node; nil stands for
// one that was looked for by its name and does not exist. A pod that was never given
// a machine has no process, and one whose containers have ended for good neither.
func witnessOf(pod *corev1.Pod, said testimony) evidence.Witness {
	switch {
	case pod == nil || pod.Spec.NodeName == "":
		return evidence.NoProcess
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return evidence.NoProcess
	case said.known:
		return evidence.Reported
	default:
		return evidence.Silent
	}
}

// applicationSince is when what applications read of an authority has changed last.
func (p *pass) applicationSince(kind authorities.Kind, published []*x509.Certificate) time.Time {
	stored := p.stored(kind.TrustedCertsSecret(p.kafka.Name))
	if p.domain(kind).Held {
		return decided.RememberedSince(stored)
	}
	return decided.ApplicationSince(stored, published, p.now)
}

// applyAnchors writes the Secret with the anchors that pods mount.
func (r *Reconciler) applyAnchors(ctx context.Context, p *pass, kind authorities.Kind) error {
	d := p.domain(kind)
	name := kind.TrustedCertsSecret(p.kafka.Name)
	stored := p.stored(name)
	err := r.writeSecret(ctx, p, kube.SecretIntent{
		Namespace: p.kafka.Namespace, Name: name,
		Labels:      p.cluster.ComponentLabels(model.AuthorityComponent()),
		Annotations: decided.ApplicationAnnotations(stored, d.certificates(d.plan.Application), p.now),
		Owners:      ownerReferences(&p.kafka),
		Data:        authority.TrustedCerts(stored, d.anchors()),
	})
	if err != nil {
		return err
	}
	r.trustChanged(&p.kafka, kind, d)
	return nil
}

// anchors are what the trusted-certs Secret shall hold.
func (d *domain) anchors() []authority.Anchor { return d.known.Anchors(d.plan) }

// certificates are those of the anchors that are known.
func (d *domain) certificates(ids []trust.AnchorID) []*x509.Certificate {
	return d.known.Certificates(ids)
}

// signer is the authority with the key, if that is at hand.
func (d *domain) signer(key trust.KeyID) (pki.Authority, bool) {
	for _, ca := range d.Keys {
		if evidence.KeyID(ca.Certificate()) == key {
			return ca, true
		}
	}
	return pki.Authority{}, false
}

// crosses are the cross certificates that the identity sends along: those of the
// authority, and, of an authority that is no more, those that were sent so far.
func (d *domain) crosses(identity trust.Identity, stored []*x509.Certificate) []*x509.Certificate {
	crosses := evidence.Crosses(d.known, d.snapshot.Now, identity, d.Crosses)
	if len(crosses) == len(identity.Cross) {
		return crosses
	}
	return evidence.Crosses(d.known, d.snapshot.Now, identity, slices.Concat(d.Crosses, stored))
}

// accepted reports whether the operator accepts nodes by the anchor: by every one
// that anybody has, so that it never locks itself out, save a compromised one once
// every node presents another.
func (d *domain) accepted(anchor trust.Anchor) bool {
	if !anchor.Compromised {
		return true
	}
	for _, member := range d.snapshot.Members {
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
