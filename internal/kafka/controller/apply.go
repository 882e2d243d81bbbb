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
type step func(context.Context, *pass) error

// apply writes what was decided, in an order in which every prefix is a state
// that the next pass goes on from: the identity of the cluster, its authorities,
// what they sign, what pods need, and then the pods' descriptions. The first two
// are needed for the rest, of which left could not be written.
func (r *Reconciler) apply(ctx context.Context, p *pass) (left, err error) {
	for _, first := range []step{r.ensureClusterID, r.applyAuthorities} {
		if err := first(ctx, p); err != nil {
			return nil, err
		}
	}
	return r.applyEach(ctx, p, []step{
		r.spreadManualUpdates,
		r.applyOperatorIdentity,
		r.applyNodeSecrets,
		r.applyObjects,
		r.applyPodSets,
		r.nudge,
		r.applyCompanions,
		r.cleanUpCompanions,
		r.cleanUp,
	}), nil
}

// applyEach takes all steps, whatever the steps before could not write.
func (r *Reconciler) applyEach(ctx context.Context, p *pass, steps []step) error {
	left := each(ctx, steps, func(step step) error { return step(ctx, p) })
	if !endsPass(ctx, left) {
		r.record(ctx, p)
	}
	return left
}

// ensureClusterID chooses the cluster id and writes it down before any storage
// can be formatted with it.
func (r *Reconciler) ensureClusterID(ctx context.Context, p *pass) error {
	if p.cluster.ClusterID != "" {
		return nil
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return fmt.Errorf("choosing a cluster id: %w", err)
	}
	status := p.kafka.Status.DeepCopy()
	status.ClusterId = cmp.Or(p.recalledClusterID(), model.NewClusterID(random))
	status.Conditions = p.conditions([]wanted{notReady(reasonCreating, "the cluster is being created")})
	if err := r.writeStatus(ctx, p, *status); err != nil {
		return err
	}
	p.cluster.ClusterID = status.ClusterId
	return nil
}

// applyAuthorities writes what was decided about both authorities. What nodes are
// then given is decided again, from what is now written: nothing may be published
// that the Secrets do not hold.
func (r *Reconciler) applyAuthorities(ctx context.Context, p *pass) error {
	for _, kind := range kinds() {
		if err := r.applyAuthority(ctx, p, kind); err != nil {
			return err
		}
	}
	if p.moved {
		if err := r.decideFromWritten(p); err != nil {
			return err
		}
	}
	for _, kind := range kinds() {
		p.noteAuthority(kind)
	}
	r.noteGate(p)
	p.wakeForTrust()
	return nil
}

// decideFromWritten decides about both authorities and what nodes trust once more,
// from what is now written. Where an authority stands since, the next pass goes on.
func (r *Reconciler) decideFromWritten(p *pass) error {
	stood := p.stands()
	problems, err := r.decideAuthorities(p)
	if err != nil {
		return err
	}
	if err := p.standDespite(problems); err != nil {
		return err
	}
	if p.stands() != stood {
		return p.invalid
	}
	p.decideTrust()
	return nil
}

// requestedOn is the Secret by whose annotation an act is asked for and withdrawn.
func (p *pass) requestedOn(kind authorities.Kind, waiting authority.Waiting) string {
	if waiting.Act == authority.ReplaceAct {
		return kind.KeySecret(p.kafka.Name)
	}
	return kind.CertSecret(p.kafka.Name)
}

// noteAuthority tells people what an authority waits for, and when it wants to
// be looked at again.
func (p *pass) noteAuthority(kind authorities.Kind) {
	state := p.domain(kind)
	for _, waiting := range state.Waiting {
		p.note("Secret "+p.requestedOn(kind, waiting), string(waiting.Obstacle), waiting.Message)
		p.wake(waiting.Until)
	}
	if model.CASpec(p.caSpec(kind)).Source == authority.Generated {
		p.wake(state.RenewalAt)
	}
	noteSharedIssuer(p, kind)
}
