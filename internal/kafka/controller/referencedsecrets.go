package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// maxReferenced is how many bytes of certificates and keys are read for the listeners of one
// Kafka. More does not fit into the Secret of a node.
const maxReferenced = 1 << 20

// referencedSecret is what a Secret that listeners or CAs refer to holds for them.
type referencedSecret struct {
	stored authority.Stored
	// unread says of entries that listeners name why they were not read.
	unread map[string]error
}

// reference are the entries of a Secret that listeners name.
type reference struct {
	secret  string
	entries []string
}

// references are what the CAs of issuers and then listeners refer to, in their order, and each Secret and entry once.
func (o *observation) references() []reference {
	var all []reference
	for _, kind := range kinds() {
		if _, caCert, uses := model.CertManagerIssuer(o.caSpec(kind)); uses {
			all = refer(all, caCert.Secret, caCert.Key)
		}
	}
	listeners := o.kafka.Spec.Kafka.Listeners
	for i := range listeners {
		if custom, refers := customCertificate(&listeners[i]); refers {
			all = refer(all, custom.SecretName, custom.Certificate, custom.Key)
		}
	}
	return all
}

// refer adds entries of a Secret to references.
func refer(all []reference, secret string, entries ...string) []reference {
	if !canExist(secret) {
		return all
	}
	at := slices.IndexFunc(all, func(r reference) bool { return r.secret == secret })
	if at < 0 {
		all, at = append(all, reference{secret: secret}), len(all)
	}
	for _, entry := range entries {
		if !slices.Contains(all[at].entries, entry) {
			all[at].entries = append(all[at].entries, entry)
		}
	}
	return all
}

// observeReferenced reads the Secrets that CAs and listeners refer to, of any owner, because nothing else
// is decided from them. It keeps the named entries within the size limits. Code that needs a missing
// Secret reports it. Keys are not kept between reconciles, so each one reads each Secret once.
func (r *Reconciler) observeReferenced(ctx context.Context, o *observation) error {
	o.referenced = map[string]referencedSecret{}
	room := maxReferenced
	for _, of := range o.references() {
		var secret corev1.Secret
		exists, err := r.getLive(ctx, o, of.secret, &secret)
		if err != nil {
			return fmt.Errorf("reading what listeners refer to: %w", err)
		}
		if exists {
			o.referenced[of.secret] = of.take(secret.Data, &room)
		}
	}
	return nil
}

// take takes the named entries of a Secret as far as there is room for them.
func (r reference) take(data map[string][]byte, room *int) referencedSecret {
	b := referencedSecret{stored: authority.Stored{Exists: true, Data: map[string][]byte{}}, unread: map[string]error{}}
	for _, entry := range r.entries {
		value, found := data[entry]
		switch {
		case !found:
		case len(value) > pki.MaxChainBytes:
			b.unread[entry] = pki.TooLong(len(value), pki.MaxChainBytes)
		case len(value) > *room:
			b.unread[entry] = fmt.Errorf("the text has %d bytes, and what the listeners refer to has more than %d together, "+
				"which does not fit into the Secret of a node", len(value), maxReferenced)
		default:
			b.stored.Data[entry] = value
			*room -= len(value)
		}
	}
	return b
}
