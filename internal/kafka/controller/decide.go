package controller

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// decide settles what the cluster and its authorities shall be. Nothing is
// written. A resource that is invalid leaves everything as it is, save that
// certificates are kept up.
func (r *Reconciler) decide(ctx context.Context, p *pass) error {
	if err := r.checkMaker(ctx, p); err != nil {
		return err
	}
	removing, err := r.removalInProgress(ctx, p)
	if err != nil {
		return err
	}
	if err := r.resolve(ctx, p, removing); err != nil {
		return err
	}
	if err := r.keepToOwn(ctx, p); err != nil {
		return err
	}
	p.window = p.openWindow()
	problems, err := r.decideAuthorities(p)
	if err != nil {
		return err
	}
	if err := r.hearAll(ctx, p); err != nil {
		return err
	}
	p.unrecalled = r.recallRecords(ctx, p)
	if p.lostTrust() {
		// What nodes say to hold may be all that is left of an authority.
		if problems, err = r.decideAuthorities(p); err != nil {
			return err
		}
	}
	if err := p.standDespite(problems); err != nil {
		return err
	}
	p.decideTrust()
	return r.checkAsked(p)
}

// checkAsked checks what the resources ask for and Secrets or Kafka may stand against.
func (r *Reconciler) checkAsked(p *pass) error {
	if p.stands() {
		p.keepCustomCertificates()
		return nil
	}
	if err := p.checkListeners(); err != nil || p.stands() {
		return err
	}
	return r.checkTopics(p)
}

// hearAll finds all that hold something of an authority, and asks them what.
func (r *Reconciler) hearAll(ctx context.Context, p *pass) error {
	if p.trustMoves() {
		// A pod that the cache does not show yet is not proven to have no process.
		if err := r.readPods(ctx, p.observation, r.livePods); err != nil {
			return err
		}
	}
	p.noteHidden()
	r.findCompanions(p)
	return r.hear(p)
}

// checkListeners checks the certificates that listeners are given. One that cannot be
// used, and has none before it, keeps nothing else from being renewed.
func (p *pass) checkListeners() error {
	err := p.checkCustomCertificates()
	if !invalidResource(err) || !p.standFor(err) {
		return err
	}
	return nil
}

// standFor goes on with the cluster as it stands, because what is asked for cannot be used, and decides about trust for
// the listeners that there are. The result is false when nothing stands yet.
func (p *pass) standFor(invalid error) bool {
	if !p.standOn() {
		return false
	}
	p.invalid = invalid
	p.keepCustomCertificates()
	p.decideTrust()
	return true
}

// decideAuthorities decides what shall become of both authorities, and gathers the
// problems of both. One that a person has to put right stands as it is, and keeps the
// other from nothing.
func (r *Reconciler) decideAuthorities(p *pass) ([]authority.Problem, error) {
	var problems []authority.Problem
	inputs := map[authorities.Kind]authority.Input{}
	for _, kind := range kinds() {
		inputs[kind] = r.authorityInput(p, kind)
		if names := p.foreignSecrets(kind); len(names) > 0 {
			if err := p.hold(kind, inputs[kind], names); err != nil {
				return nil, err
			}
			continue
		}
		d := p.domain(kind)
		if err := d.decideCA(inputs[kind], r.refusesOutside(p, kind)); err != nil {
			return nil, err
		}
		problems = append(problems, d.Problems...)
		d.remarks = slices.Concat(authority.Ignored(inputs[kind]), authority.Misasked(inputs[kind]))
	}
	found, err := p.keepApart(inputs)
	return append(problems, found...), err
}

// standDespite goes on with the cluster as it stands while a person has to put an
// authority right; only while nothing runs yet nothing is made.
func (p *pass) standDespite(problems []authority.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	invalid := &authority.InvalidResourceError{Problems: problems}
	if p.cannotAsk() || !p.standOn() {
		return invalid
	}
	p.invalid = invalid
	return nil
}

// cannotAsk reports whether the operator has no certificate to ask nodes with, nobody
// else's Secret is why, and the authority that would sign one needs a person and has no key
// at hand. What is lost of that authority may be known to nodes, so that nothing is begun
// before somebody has looked.
func (p *pass) cannotAsk() bool {
	name := p.kafka.Name + operatorSecretSuffix
	_, exists := p.secrets[name]
	return !exists && !p.isForeign(secretObject(name)) && len(p.clusterCA.Problems) > 0 && len(p.clusterCA.Keys) == 0
}

// keepApart lets an authority stand as it is that would let nodes accept users as
// nodes, unless a person has allowed it.
func (p *pass) keepApart(inputs map[authorities.Kind]authority.Input) ([]authority.Problem, error) {
	if strings.EqualFold(p.kafka.Annotations[authority.AllowSharedAnnotation], isTrue) {
		return nil, nil
	}
	holders, problem := authority.CheckApart(inputs[authorities.Cluster], inputs[authorities.Clients], p.clusterCA.Decision, p.clientsCA.Decision)
	if problem == nil {
		return nil, nil
	}
	kind := authorities.Of(holders)
	decision, err := authority.Stand(inputs[kind])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	d := p.domain(kind)
	d.Decision = decision
	d.Problems = append(d.Problems, *problem)
	return []authority.Problem{*problem}, nil
}

// removalInProgress is the node that the planner has granted to go, or nobody.
func (r *Reconciler) removalInProgress(ctx context.Context, p *pass) (model.NodeID, error) {
	if r.knownSettled(p) {
		return nobody, nil
	}
	record, err := r.readDisruption(ctx, p.observation)
	if ofOthers(err) || unreadableRecord(err) {
		return nobody, nil // it is told by those who would act
	}
	p.undisrupted = err == nil && record.resourceVersion == ""
	if err != nil || record.Disruption == nil || record.Kind != rollout.Remove {
		return nobody, err
	}
	return model.NodeID(record.Disruption.Node), nil
}

// kinds are the two authorities of a cluster, the cluster CA first.
func kinds() []authorities.Kind { return []authorities.Kind{authorities.Cluster, authorities.Clients} }

func (p *pass) domain(kind authorities.Kind) *domain {
	if kind == authorities.Clients {
		return &p.clientsCA
	}
	return &p.clusterCA
}

// invalidResource reports whether only a change of a resource or of another object can
// put the error right, so that trying again is of no use.
func invalidResource(err error) bool {
	_, ofModel := errors.AsType[*model.InvalidResourceError](err)
	_, ofAuthority := errors.AsType[*authority.InvalidResourceError](err)
	return ofModel || ofAuthority || ofOthers(err) || unreadableRecord(err)
}

// transient is the error if trying again may help, nil otherwise.
func transient(err error) error {
	var again []error
	for _, part := range parts(err) {
		if !invalidResource(part) {
			again = append(again, kube.IgnoreEnding(part))
		}
	}
	return together(again...)
}

// access says how the operator reaches the nodes in this pass: with its stored
// identity, recognising them by every anchor there is, and by the leaves that
// their Secrets hold. It must never lock itself out.
func (p *pass) access() Access {
	identity := p.operator
	if identity.leaf == nil {
		secret := p.secrets[p.kafka.Name+operatorSecretSuffix]
		if stored, err := identityOf(secret.Data[operatorCertKey], secret.Data[operatorKeyKey]); err == nil {
			identity = stored
		}
	}
	a := access(p.cluster, identity.certificate, p.anchors(), p.leavesByHost())
	a.Leaving = p.leavingAddresses(a.Brokers)
	return a
}

// leavingAddresses are where nodes may still be brokers that are asked for no more.
func (p *pass) leavingAddresses(brokers []string) []string {
	var leaving []string
	for _, node := range p.allNodes() {
		address := net.JoinHostPort(p.cluster.Names.PodHost(node.Pod), replicationPort)
		if !slices.Contains(brokers, address) {
			leaving = append(leaving, address)
		}
	}
	return leaving
}

// anchors are all certificates the operator accepts nodes by.
func (p *pass) anchors() []*x509.Certificate {
	var anchors []*x509.Certificate
	for _, anchor := range p.clusterCA.Snapshot.Anchors {
		if cert, found := p.clusterCA.Known.Certificate(anchor.ID); found && p.clusterCA.accepted(anchor) {
			anchors = append(anchors, cert)
		}
	}
	return anchors
}

// leavesByHost are the fingerprints of the leaves that the nodes' Secrets hold,
// by the host they are presented at.
func (p *pass) leavesByHost() map[string][]string {
	leaves := map[string][]string{}
	for name := range p.secrets {
		secret := p.secrets[name]
		chain, err := pki.ParseBundle(secret.Data[name+".crt"])
		if _, ofNode := secret.Data[agent.PublicationKey]; err != nil || !ofNode {
			continue
		}
		host := p.cluster.Names.PodHost(name)
		leaves[host] = append(leaves[host], pki.FingerprintOf(chain[0]).String())
	}
	for _, at := range p.companions {
		if chain := p.presents(at.Secret, at.certKey()); len(chain) > 0 {
			leaves[at.Host] = append(leaves[at.Host], pki.FingerprintOf(chain[0]).String())
		}
	}
	return leaves
}
