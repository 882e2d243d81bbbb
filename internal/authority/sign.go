package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// demandError says what has to be there first. Deciding makes no key: what is decided twice would be about two.
type demandError struct{ demand Demand }

func (e *demandError) Error() string { return fmt.Sprintf("it takes %+v", e.demand) }

// newCA makes an authority with a key of its own.
func (d *decider) newCA(name Generation) (pki.Authority, error) {
	if d.making.Key.IsZero() || d.isKnown(d.making.Key) {
		return pki.Authority{}, &demandError{Demand{Key: new(d.in.Spec.CAKey()), Parent: d.lacksParent()}}
	}
	return d.signed(d.making.Key, name)
}

// lacksParent reports whether nothing is at hand that signs.
func (d *decider) lacksParent() bool {
	return d.making.Signing == BelowParent && d.making.Parent.IsZero()
}

// isKnown reports whether a key is one that the Secrets hold, or that a certificate is about.
func (d *decider) isKnown(key pki.PrivateKey) bool {
	isRetired := func(r retiredKey) bool { return r.key.Equal(key) }
	return d.o.key.Equal(key) || slices.ContainsFunc(d.retired, isRetired) || slices.ContainsFunc(d.o.retired, isRetired) ||
		d.o.pending != nil && d.o.pending.Incoming.Key().Equal(key) || slices.ContainsFunc(d.everything(), key.Matches)
}

// signed makes a certificate for a key that has none.
func (d *decider) signed(key pki.PrivateKey, name Generation) (pki.Authority, error) {
	spec := pki.CASpec{
		Subject: d.in.Names.subject(name), Validity: d.validity(), Now: d.in.Now, PermittedDNS: d.making.PermittedDNS,
	}
	switch {
	case d.making.Signing != BelowParent:
		return pki.SelfSign(key, spec)
	case d.lacksParent():
		return pki.Authority{}, &demandError{Demand{Parent: true}}
	default:
		return pki.SignCA(d.making.Parent, key, spec)
	}
}

// renewed makes another certificate for the key of one.
func (d *decider) renewed(old *x509.Certificate, key pki.PrivateKey) (pki.Authority, error) {
	switch {
	case d.making.Signing != BelowParent:
		return pki.RenewCA(old, key, d.validity(), d.in.Now)
	case d.lacksParent():
		return pki.Authority{}, &demandError{Demand{Parent: true}}
	default:
		return pki.RenewCABelow(d.making.Parent, old, key, d.validity(), d.in.Now)
	}
}

// validity is that of the specification, or seconds more, or less where the parent ends before: two certificates of an
// authority never end in the same second, because retired ones are filed by it.
func (d *decider) validity() time.Duration {
	taken := map[int64]bool{}
	for _, cert := range d.everything() {
		taken[cert.NotAfter.Unix()] = true
	}
	validity, step := d.in.Spec.Validity(), time.Second
	if parent := d.making.Parent.Certificate(); parent != nil && parent.NotAfter.Before(d.in.Now.Add(validity)) {
		validity, step = parent.NotAfter.Sub(d.in.Now), -time.Second
	}
	for taken[d.in.Now.Add(validity).Unix()] {
		validity += step
	}
	return validity
}
