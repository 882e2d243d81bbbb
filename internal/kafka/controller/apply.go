package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// step writes a part of what was decided. Its error is what it could not write.
type step func(context.Context, *applied) error

// apply writes what was decided, in an order in which every prefix is a state
// that the next reconcile goes on from: the identity of the cluster, its authorities,
// what they sign, what pods need, and then the pods' descriptions. The first two
// are needed for the rest, of which left could not be written.
func (r *Reconciler) apply(ctx context.Context, c *applied) (left, err error) {
	for _, first := range []step{r.ensureClusterID, r.applyAuthorities} {
		if err := first(ctx, c); err != nil {
			return nil, err
		}
	}
	return r.applyEach(ctx, c, []step{
		r.spreadManualUpdates,
		r.applyOperatorIdentity,
		r.applyNodeSecrets,
		r.applyObjects,
		r.applyPodSets,
		r.triggerKubeletSync,
		r.applyCompanions,
		r.cleanUpCompanions,
		r.cleanUp,
	}), nil
}

// applyEach takes all steps, whatever the steps before could not write.
func (r *Reconciler) applyEach(ctx context.Context, c *applied, steps []step) error {
	left := each(ctx, steps, func(step step) error { return step(ctx, c) })
	if !endsPass(ctx, left) {
		r.record(ctx, c)
	}
	return left
}

// ensureClusterID chooses the cluster id and writes it down before any storage
// can be formatted with it.
func (r *Reconciler) ensureClusterID(ctx context.Context, c *applied) error {
	if c.cluster.ClusterID != "" {
		return nil
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return fmt.Errorf("choosing a cluster id: %w", err)
	}
	status := c.kafka.Status.DeepCopy()
	status.ClusterId = cmp.Or(c.recalledClusterID(), model.NewClusterID(random))
	status.Conditions = c.conditions([]wanted{notReady(reasonCreating, "the cluster is being created")})
	if err := r.writeStatus(ctx, c.observation, *status); err != nil {
		return err
	}
	c.cluster.ClusterID = status.ClusterId
	return nil
}

// applyAuthorities writes what was decided about both authorities. What nodes are
// then given is decided again, from what is now written: nothing may be published
// that the Secrets do not hold.
func (r *Reconciler) applyAuthorities(ctx context.Context, c *applied) error {
	for _, kind := range kinds() {
		if err := r.applyAuthority(ctx, c, kind); err != nil {
			return err
		}
	}
	if c.hasWritten {
		if err := r.decideFromWritten(c.decided); err != nil {
			return err
		}
	}
	for _, kind := range kinds() {
		c.noteAuthority(kind)
	}
	r.noteGate(c.desired)
	c.wakeForTrust()
	return nil
}

// decideFromWritten decides about both CAs and what nodes trust once more, from what is now written. Where a CA needs a
// person since, the next reconcile continues.
func (r *Reconciler) decideFromWritten(c *decided) error {
	wasDegraded := c.isDegraded()
	problems, err := r.decideCAs(c)
	if err != nil {
		return err
	}
	if err := c.decideDomains(problems); err != nil {
		return err
	}
	if c.isDegraded() != wasDegraded {
		return c.invalid
	}
	return nil
}

// requestedOn is the Secret by whose annotation an act is asked for and withdrawn.
func (o *observation) requestedOn(kind authorities.Kind, waiting authority.Waiting) string {
	if waiting.Act == authority.ReplaceAct {
		return kind.KeySecret(o.kafka.Name)
	}
	return kind.CertSecret(o.kafka.Name)
}

// noteAuthority tells people what an authority waits for, and when it wants to
// be looked at again.
func (c *decided) noteAuthority(kind authorities.Kind) {
	state := c.domain(kind)
	for _, waiting := range state.Waiting {
		c.note("Secret "+c.requestedOn(kind, waiting), string(waiting.Obstacle), waiting.Message)
		c.wake(waiting.Until)
	}
	if model.CASpec(c.caSpec(kind)).Source == authority.Generated {
		c.wake(state.RenewalAt)
	}
	noteSharedIssuer(c.observation, kind)
}
