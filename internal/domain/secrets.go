package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/authority"
)

// Secret is what a Secret of the domain is to hold.
type Secret struct {
	authority.Desired

	Name string
}

// Secrets are those of the domain in the order in which they are written, and what has happened once they are. A crash
// after any of them is recognised by the next decision. A CA that is held has none, nor has a paused one: what is asked for there
// stays asked for.
func (d *Decided) Secrets() ([]Secret, []authority.Transition, error) {
	if d.Held || d.seen.CA.Paused {
		return nil, nil, nil
	}
	settled, err := d.Settle(d.Known.CAPlan(d.Plan))
	if err != nil {
		return nil, nil, fmt.Errorf("writing the Secrets of %s: %w", d.seen.CA.Names.Authority, err)
	}
	return append(CASecrets(d.seen.CA.Names, settled, d.seen.CA.CertSecret), d.anchorsSecret()), settled.Transitions, nil
}

// CASecrets are the Secrets of a CA that Keyturn maintains, in the order in which they are written. The key comes first: it
// carries what a change of the certificate is recognised by, and after a crash at the beginning the certificate is issued
// for it. What is left of a CA on which nothing depends is emptied before a beginning: beside the new key it would look as
// if two pairs were mixed up. present is the certificate Secret as it is stored.
func CASecrets(names *authority.Names, settled authority.Settled, present authority.Stored) []Secret {
	secrets := []Secret{{settled.Key, names.KeySecret}, {settled.Cert, names.CertSecret}}
	begins := slices.ContainsFunc(settled.Transitions, func(t authority.Transition) bool { return t.Kind == authority.Created })
	if begins && len(present.Data) > 0 {
		emptied := Secret{settled.Cert, names.CertSecret}
		emptied.Data, emptied.Annotations = nil, nil // the next one is counted from its generation
		secrets = append([]Secret{emptied}, secrets...)
	}
	return slices.DeleteFunc(secrets, func(s Secret) bool { return !s.Ours })
}

// anchorsSecret is the Secret that has the state of each anchor.
func (d *Decided) anchorsSecret() Secret {
	stored := d.seen.CA.TrustedCerts
	secret := Secret{Name: d.seen.CA.Names.TrustedCertsSecret, Desired: authority.Desired{
		Ours:        true,
		Data:        authority.TrustedCerts(stored, d.Known.Anchors(d.Plan)),
		Annotations: ApplicationAnnotations(stored, d.Known.Certificates(d.Plan.Application), d.seen.CA.Now),
	}}
	if distrusted := d.distrusted(); len(distrusted) > 0 {
		secret.Annotations[DistrustedAnnotation] = strings.Join(distrusted, namesSeparator)
	} else if _, isSet := stored.Annotations[DistrustedAnnotation]; isSet {
		secret.RemoveAnnotations = []string{DistrustedAnnotation}
	}
	return secret
}
