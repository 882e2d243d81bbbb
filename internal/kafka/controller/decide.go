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
func (r *Reconciler) decide(ctx context.Context, c *applied) error {
	if err := r.checkMaker(ctx, c.observation); err != nil {
		return err
	}
	removing, err := r.removalInProgress(ctx, c.desired)
	if err != nil {
		return err
	}
	if err := r.resolve(ctx, c.desired, removing); err != nil {
		return err
	}
	if err := r.keepToOwn(ctx, c.desired); err != nil {
		return err
	}
	c.window = c.openWindow()
	problems, err := r.decideAuthorities(c.decided)
	if err != nil {
		return err
	}
	if err := r.hearAll(ctx, c); err != nil {
		return err
	}
	c.unrecalled = r.recallRecords(ctx, c.decided)
	if c.lostTrust() {
		// What nodes say to hold may be all that is left of an authority.
		if problems, err = r.decideAuthorities(c.decided); err != nil {
			return err
		}
	}
	if err := c.standDespite(problems); err != nil {
		return err
	}
	c.decideTrust()
	return r.checkAsked(c.decided)
}

// checkAsked checks what the resources ask for and Secrets or Kafka may stand against.
func (r *Reconciler) checkAsked(c *decided) error {
	if c.stands() {
		c.keepCustomCertificates()
		return nil
	}
	if err := c.checkListeners(); err != nil || c.stands() {
		return err
	}
	return r.checkTopics(c)
}

// hearAll finds all that hold something of an authority, and asks them what.
func (r *Reconciler) hearAll(ctx context.Context, c *applied) error {
	if c.trustMoves() {
		// A pod that the cache does not show yet is not proven to have no process.
		if err := r.readPods(ctx, c.observation, r.livePods); err != nil {
			return err
		}
	}
	c.noteHidden()
	r.findCompanions(c.polled)
	return r.hear(c)
}

// checkListeners checks the certificates that listeners are given. One that cannot be
// used, and has none before it, keeps nothing else from being renewed.
func (c *decided) checkListeners() error {
	err := c.checkCustomCertificates()
	if !invalidResource(err) || !c.standFor(err) {
		return err
	}
	return nil
}

// standFor goes on with the cluster as it stands, because what is asked for cannot be used, and decides about trust for
// the listeners that there are. The result is false when nothing stands yet.
func (c *decided) standFor(invalid error) bool {
	if !c.standOn() {
		return false
	}
	c.invalid = invalid
	c.keepCustomCertificates()
	c.decideTrust()
	return true
}

// decideAuthorities decides what shall become of both authorities, and gathers the
// problems of both. One that a person has to put right stands as it is, and keeps the
// other from nothing.
func (r *Reconciler) decideAuthorities(c *decided) ([]authority.Problem, error) {
	var problems []authority.Problem
	inputs := map[authorities.Kind]authority.Input{}
	for _, kind := range kinds() {
		inputs[kind] = r.authorityInput(c, kind)
		if names := c.foreignSecrets(kind); len(names) > 0 {
			if err := c.hold(kind, inputs[kind], names); err != nil {
				return nil, err
			}
			continue
		}
		d := c.domain(kind)
		if err := d.decideCA(inputs[kind], r.refusesOutside(c.desired, kind)); err != nil {
			return nil, err
		}
		problems = append(problems, d.Problems...)
		d.remarks = slices.Concat(authority.Ignored(inputs[kind]), authority.Misasked(inputs[kind]))
	}
	found, err := c.keepApart(inputs)
	return append(problems, found...), err
}

// standDespite goes on with the cluster as it stands while a person has to put an
// authority right; only while nothing runs yet nothing is made.
func (c *decided) standDespite(problems []authority.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	invalid := &authority.InvalidResourceError{Problems: problems}
	if c.cannotAsk() || !c.standOn() {
		return invalid
	}
	c.invalid = invalid
	return nil
}

// cannotAsk reports whether the operator has no certificate to ask nodes with, nobody
// else's Secret is why, and the authority that would sign one needs a person and has no key
// at hand. What is lost of that authority may be known to nodes, so that nothing is begun
// before somebody has looked.
func (c *decided) cannotAsk() bool {
	name := c.kafka.Name + operatorSecretSuffix
	_, exists := c.secrets[name]
	return !exists && !c.isForeign(secretObject(name)) && len(c.clusterCA.Problems) > 0 && len(c.clusterCA.Keys) == 0
}

// keepApart lets an authority stand as it is that would let nodes accept users as
// nodes, unless a person has allowed it.
func (c *decided) keepApart(inputs map[authorities.Kind]authority.Input) ([]authority.Problem, error) {
	if strings.EqualFold(c.kafka.Annotations[authority.AllowSharedAnnotation], isTrue) {
		return nil, nil
	}
	holders, problem := authority.CheckApart(inputs[authorities.Cluster], inputs[authorities.Clients], c.clusterCA.Decision, c.clientsCA.Decision)
	if problem == nil {
		return nil, nil
	}
	kind := authorities.Of(holders)
	decision, err := authority.Stand(inputs[kind])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	d := c.domain(kind)
	d.Decision = decision
	d.Problems = append(d.Problems, *problem)
	return []authority.Problem{*problem}, nil
}

// removalInProgress is the node that the planner has granted to go, or nobody.
func (r *Reconciler) removalInProgress(ctx context.Context, c *desired) (model.NodeID, error) {
	if r.knownSettled(c) {
		return nobody, nil
	}
	record, err := r.readDisruption(ctx, c.observation)
	if ofOthers(err) || unreadableRecord(err) {
		return nobody, nil // it is told by those who would act
	}
	c.undisrupted = err == nil && record.resourceVersion == ""
	if err != nil || record.Disruption == nil || record.Kind != rollout.Remove {
		return nobody, err
	}
	return model.NodeID(record.Disruption.Node), nil
}

// kinds are the two authorities of a cluster, the cluster CA first.
func kinds() []authorities.Kind { return []authorities.Kind{authorities.Cluster, authorities.Clients} }

func (c *decided) domain(kind authorities.Kind) *domain {
	if kind == authorities.Clients {
		return &c.clientsCA
	}
	return &c.clusterCA
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

// access says how the operator reaches the nodes in this reconcile: with its stored
// identity, recognising them by every anchor there is, and by the leaves that
// their Secrets hold. It must never lock itself out.
func (c *applied) access() Access {
	identity := c.operator
	if identity.leaf == nil {
		secret := c.secrets[c.kafka.Name+operatorSecretSuffix]
		if stored, err := identityOf(secret.Data[operatorCertKey], secret.Data[operatorKeyKey]); err == nil {
			identity = stored
		}
	}
	a := access(c.cluster, identity.certificate, c.anchors(), c.leavesByHost())
	a.Leaving = c.leavingAddresses(a.Brokers)
	return a
}

// leavingAddresses are where nodes may still be brokers that are asked for no more.
func (c *desired) leavingAddresses(brokers []string) []string {
	var leaving []string
	for _, node := range c.allNodes() {
		address := net.JoinHostPort(c.cluster.Names.PodHost(node.Pod), replicationPort)
		if !slices.Contains(brokers, address) {
			leaving = append(leaving, address)
		}
	}
	return leaving
}

// anchors are all certificates the operator accepts nodes by.
func (c *decided) anchors() []*x509.Certificate {
	var anchors []*x509.Certificate
	for _, anchor := range c.clusterCA.Snapshot.Anchors {
		if cert, found := c.clusterCA.Known.Certificate(anchor.ID); found && c.clusterCA.accepted(anchor) {
			anchors = append(anchors, cert)
		}
	}
	return anchors
}

// leavesByHost are the fingerprints of the leaves that the nodes' Secrets hold,
// by the host they are presented at.
func (c *polled) leavesByHost() map[string][]string {
	leaves := map[string][]string{}
	for name := range c.secrets {
		secret := c.secrets[name]
		chain, err := pki.ParseBundle(secret.Data[name+".crt"])
		if _, ofNode := secret.Data[agent.PublicationKey]; err != nil || !ofNode {
			continue
		}
		host := c.cluster.Names.PodHost(name)
		leaves[host] = append(leaves[host], pki.FingerprintOf(chain[0]).String())
	}
	for _, at := range c.companions {
		if chain := c.presents(at.Secret, at.certKey()); len(chain) > 0 {
			leaves[at.Host] = append(leaves[at.Host], pki.FingerprintOf(chain[0]).String())
		}
	}
	return leaves
}
