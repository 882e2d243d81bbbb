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

// decide decides what becomes of the cluster and its CAs, and writes nothing. Where the resources cannot be used, the cluster
// stays as it was last, but for its certificates. After an error the value holds what was decided until then.
func (r *Reconciler) decide(ctx context.Context, c *decided) error {
	if err := r.checkMaker(ctx, c.observation); err != nil {
		return err
	}
	if err := r.desire(ctx, c.desired); err != nil {
		return err
	}
	problems, err := r.decideAuthorities(ctx, c)
	if err != nil {
		return err
	}
	c.noteHidden()
	c.unrecalled = r.recallRecords(ctx, c)
	if err := c.decideDomains(problems); err != nil {
		return err
	}
	if err := r.trackAgents(c); err != nil {
		return err
	}
	return r.checkTopics(c)
}

// desire resolves what the resources ask for, or how the cluster was last where they cannot be used.
func (r *Reconciler) desire(ctx context.Context, c *desired) error {
	removing, err := r.removalInProgress(ctx, c)
	if err != nil {
		return err
	}
	if err := r.resolve(ctx, c, removing); err != nil {
		return err
	}
	if err := r.checkOwnership(ctx, c); err != nil {
		return err
	}
	c.window = c.openWindow()
	return c.checkListeners()
}

// decideAuthorities decides both CAs from all that may hold something of them. A pod that the cache does not show yet is not
// proven to have no process, and may hold all that is left of a CA.
func (r *Reconciler) decideAuthorities(ctx context.Context, c *decided) ([]authority.Problem, error) {
	isLost := slices.ContainsFunc(kinds(), c.lacksTrust)
	if isLost {
		if err := r.readPods(ctx, c.observation, r.livePods); err != nil {
			return nil, err
		}
	}
	r.takeReports(c.polled)
	problems, err := r.decideCAs(c)
	if err != nil || isLost || !c.trustMoves() {
		return problems, err
	}
	if err := r.readPods(ctx, c.observation, r.livePods); err != nil {
		return nil, err
	}
	r.takeReports(c.polled)
	return problems, nil
}

// decideDomains decides who trusts the CAs. While a person has to put a CA right that is decided for the cluster as it was last; only
// while nothing runs yet nothing is created.
func (c *decided) decideDomains(problems []authority.Problem) error {
	if len(problems) > 0 {
		invalid := &authority.InvalidResourceError{Problems: problems}
		if c.cannotAsk() || !c.useLastKnown() {
			return invalid
		}
		c.invalid = invalid
	}
	c.decideTrust()
	return nil
}

// checkListeners checks the certificates that listeners are given. One that cannot be used, and has none before it, keeps
// nothing else from being renewed.
func (c *desired) checkListeners() error {
	if c.isDegraded() {
		return nil
	}
	err := c.checkCustomCertificates()
	if !invalidResource(err) || !c.useLastKnown() {
		return err
	}
	c.unfit = err
	return nil
}

// decideCAs decides what becomes of both CAs, and gathers the problems of both. One that a person has to put right stays as
// it is, and keeps the other from nothing.
func (r *Reconciler) decideCAs(c *decided) ([]authority.Problem, error) {
	var problems []authority.Problem
	inputs := map[authorities.Kind]authority.Input{}
	for _, kind := range kinds() {
		inputs[kind] = r.authorityInput(c, kind)
		if names := c.foreignSecrets(kind); len(names) > 0 {
			if err := c.freeze(kind, inputs[kind], names); err != nil {
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
	found, err := c.freezeShared(inputs)
	return append(problems, found...), err
}

// cannotAsk reports whether the operator has no certificate to query nodes with, and the cluster
// CA has problems and no key to sign one. Nothing is begun until a person has looked, because
// nodes may know what the CA has lost. A Secret not owned by the cluster is another case.
func (c *decided) cannotAsk() bool {
	name := c.kafka.Name + operatorSecretSuffix
	_, exists := c.secrets[name]
	return !exists && !c.isForeign(secretObject(name)) && len(c.clusterCA.Problems) > 0 && len(c.clusterCA.Keys) == 0
}

// freezeShared freezes a CA that would have nodes accept users as nodes, where no person has
// allowed that.
func (c *decided) freezeShared(inputs map[authorities.Kind]authority.Input) ([]authority.Problem, error) {
	if strings.EqualFold(c.kafka.Annotations[authority.AllowSharedAnnotation], isTrue) {
		return nil, nil
	}
	holders, problem := authority.CheckApart(inputs[authorities.Cluster], inputs[authorities.Clients], c.clusterCA.Decision, c.clientsCA.Decision)
	if problem == nil {
		return nil, nil
	}
	kind := authorities.Of(holders)
	decision, err := authority.Freeze(inputs[kind])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	d := c.domain(kind)
	d.Decision = decision
	d.Problems = append(d.Problems, *problem)
	return []authority.Problem{*problem}, nil
}

// removalInProgress is the node whose removal the planner has granted, or noNode.
func (r *Reconciler) removalInProgress(ctx context.Context, c *desired) (model.NodeID, error) {
	if c.isUndisrupted() {
		return noNode, nil
	}
	record, err := r.readDisruption(ctx, c.observation)
	if ofOthers(err) || unreadableRecord(err) {
		return noNode, nil // the acting part of the reconcile reports it
	}
	c.undisrupted = err == nil && record.resourceVersion == ""
	if err != nil || record.Disruption == nil || record.Kind != rollout.Remove {
		return noNode, err
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

// access says how the operator reaches the nodes: with its stored identity, recognising them by every CA that is known, and by
// the leaves that their Secrets hold. It must never lock itself out.
func (c *decided) access() Access {
	a := access(c.cluster, c.storedIdentity().certificate, c.anchors(), c.leavesByHost())
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
