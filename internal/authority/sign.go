package authority

import (
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// newCA makes an authority with a key of its own.
func (d *decider) newCA(name Generation) (pki.Authority, error) {
	key, err := pki.GenerateKey(d.in.Spec.CAKey())
	if err != nil {
		return pki.Authority{}, err
	}
	return d.signed(key, name)
}

// signed makes a certificate for a key that has none.
func (d *decider) signed(key pki.PrivateKey, name Generation) (pki.Authority, error) {
	spec := pki.CASpec{
		Subject: d.in.Names.subject(name), Validity: d.validity(), Now: d.in.Now, PermittedDNS: d.in.Spec.PermittedDNS,
	}
	if d.in.Parent.IsZero() {
		return pki.SelfSign(key, spec)
	}
	return pki.SignCA(d.in.Parent, key, spec)
}

// renewed makes another certificate for the key of one.
func (d *decider) renewed(old *x509.Certificate, key pki.PrivateKey) (pki.Authority, error) {
	if d.in.Parent.IsZero() {
		return pki.RenewCA(old, key, d.validity(), d.in.Now)
	}
	return pki.RenewCABelow(d.in.Parent, old, key, d.validity(), d.in.Now)
}

// validity is that of the specification, or seconds more, or less where the parent ends before: two certificates of an
// authority never end in the same second, because retired ones are filed by it.
func (d *decider) validity() time.Duration {
	taken := map[int64]bool{}
	for _, cert := range d.everything() {
		taken[cert.NotAfter.Unix()] = true
	}
	validity, step := d.in.Spec.Validity(), time.Second
	if parent := d.in.Parent.Certificate(); parent != nil && parent.NotAfter.Before(d.in.Now.Add(validity)) {
		validity, step = parent.NotAfter.Sub(d.in.Now), -time.Second
	}
	for taken[d.in.Now.Add(validity).Unix()] {
		validity += step
	}
	return validity
}
