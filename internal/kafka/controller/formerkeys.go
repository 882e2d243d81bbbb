package controller

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// deleteFormerKeys deletes the Secret with the keys of a CA in whose place an issuer has come, once nothing needs them. One
// whose key the operator has not written is its user's.
func (r *Reconciler) deleteFormerKeys(ctx context.Context, p *pass) error {
	for _, kind := range kinds() {
		name := kind.KeySecret(p.kafka.Name)
		secret, exists := p.secrets[name]
		if !exists || secret.DeletionTimestamp != nil || !kube.WroteData(&secret, fieldOwner, authority.KeyKey) || !isFormer(p, kind) {
			continue
		}
		if err := r.stillStored(ctx, p); err != nil {
			return err
		}
		if err := r.takeAway(ctx, p, &secret); err != nil {
			return err
		}
		r.events.keysDeleted(&p.kafka, kind)
	}
	return nil
}

// isFormer reports whether an issuer signs for an authority, and no certificate depends on a key that its Secret holds.
func isFormer(p *pass, kind authorities.Kind) bool {
	d := p.domain(kind)
	if model.CASpec(p.caSpec(kind)).Source != authority.Outside || p.stands() || d.Held || !d.plan.Done {
		return false
	}
	certs := slices.Concat(d.Retired, storedLeaves(p))
	for _, anchor := range d.anchors() {
		certs = append(certs, anchor.Certificate)
	}
	for _, at := range p.companions {
		certs = append(certs, p.presents(at.Secret, at.certKey())...)
	}
	return authority.AllForeign(p.stored(kind.KeySecret(p.kafka.Name)), certs)
}
