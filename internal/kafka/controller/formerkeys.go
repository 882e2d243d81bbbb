package controller

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// deleteFormerKeys deletes the Secret with the keys of a CA in whose place an issuer has come, once nothing needs them. One
// whose key the operator has not written is its user's. One with an entry of others beside the key is kept as it is.
func (r *Reconciler) deleteFormerKeys(ctx context.Context, c *applied) error {
	for _, kind := range kinds() {
		name := kind.KeySecret(c.kafka.Name)
		secret, exists := c.secrets[name]
		if !exists || secret.DeletionTimestamp != nil || !kube.WroteData(&secret, fieldOwner, authority.KeyKey) || !isFormer(c.decided, kind) {
			continue
		}
		if others := entriesOfOthers(&secret); len(others) > 0 {
			c.note("Secret "+name, reasonAuthority, "an issuer has replaced the CA, and its key is not deleted, because Keyturn has not written "+
				excerpt.First(others, excerpt.Named, ", ")+" in the same Secret: delete the Secret when you do not need that")
			continue
		}
		if err := r.checkSecrets(ctx, c.observation); err != nil {
			return err
		}
		if err := r.takeAway(ctx, c.observation, &secret); err != nil {
			return err
		}
		r.events.keysDeleted(&c.kafka, kind)
	}
	return nil
}

// isFormer reports whether an issuer signs for an authority, and no certificate depends on a key that its Secret holds.
func isFormer(c *decided, kind authorities.Kind) bool {
	d := c.domain(kind)
	if model.CASpec(c.caSpec(kind)).Source != authority.Outside || c.isDegraded() || d.Held || !d.Plan.Done {
		return false
	}
	certs := slices.Concat(d.Retired, storedLeaves(c.desired))
	for _, anchor := range d.Known.Anchors(d.Plan) {
		certs = append(certs, anchor.Certificate)
	}
	for _, at := range c.companions {
		certs = append(certs, c.presents(at.Secret, at.certKey())...)
	}
	return authority.AllForeign(c.stored(kind.KeySecret(c.kafka.Name)), certs)
}

// entriesOfOthers are those that the operator has not written, sorted.
func entriesOfOthers(secret *corev1.Secret) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(secret.Data)), func(entry string) bool {
		return kube.WroteData(secret, fieldOwner, entry)
	})
}
