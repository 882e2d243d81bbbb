package authority

import (
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// borne is a generation of a key that something bears which survives.
type borne struct {
	generation Generation
	// by reports whether it is that of a key.
	by func(pki.PrivateKey) bool
}

// borne are the generations of keys that survive in names: of certificates that are known,
// and of the issuers of leaves in Secrets.
func (d *decider) borne() []borne {
	var all []borne
	for _, cert := range d.everything() {
		all = append(all, borne{d.in.Names.generation(cert), func(k pki.PrivateKey) bool { return k.Matches(cert) }})
	}
	for _, leaf := range d.in.Evidence.Issued {
		all = append(all, borne{d.in.Names.GenerationIn(leaf.Issuer.CommonName), func(k pki.PrivateKey) bool { return k.Signed(leaf) }})
	}
	return slices.DeleteFunc(all, func(b borne) bool { return b.generation >= MaxGeneration/2 })
}

// highestSeen is the highest generation of a key that anything bears which survives: none
// when nothing does. A new key takes the next one, so that none is given to two keys.
func (d *decider) highestSeen() Generation {
	highest := d.in.Evidence.generations().key
	if d.o.keyGenFound || d.d.Certificate != nil {
		highest = max(highest, d.d.KeyGeneration)
	}
	for _, b := range d.borne() {
		highest = max(highest, b.generation)
	}
	return highest + d.unfound()
}

// firstUnused is the generation of a key that is made where none is left. Each key had a
// certificate of its own: the generation of the last one bounds that of a key which nothing
// bears any more.
func (d *decider) firstUnused() Generation { return max(d.highestSeen(), d.o.seenCertGen) + 1 }

// unfound counts the certificates that nodes were configured to trust and that no source holds: each
// may bear one of the next numbers. Where nothing is found, one of them bears the number that
// dependants do. While nothing is lost they are those that were withdrawn long ago.
func (d *decider) unfound() Generation {
	if len(d.o.bundle) > 0 && len(StoredAnchors(d.in.TrustedCerts)) > 0 {
		return 0
	}
	found := map[pki.Fingerprint]bool{}
	for _, cert := range d.everything() {
		found[pki.FingerprintOf(cert)] = true
	}
	named := slices.Concat(d.in.Evidence.Named, d.in.Evidence.Described)
	slices.SortFunc(named, pki.Fingerprint.Compare)
	unfound := slices.DeleteFunc(slices.Compact(named), func(f pki.Fingerprint) bool { return found[f] })
	if len(found) == 0 && len(unfound) > 0 {
		unfound = unfound[1:]
	}
	return Generation(len(unfound))
}

// highestOfOthers is the highest generation that another key has had after the present one, as far as
// dependants tell; otherwise none. Certificates alone only tell that a peer was to trust them.
func (d *decider) highestOfOthers() Generation {
	present, seen := d.d.Authority.Key(), d.in.Evidence.generations()
	others := none
	if seen.cert <= d.d.CertGeneration+d.ahead() && seen.key <= d.d.KeyGeneration && !d.isSuperseded() {
		return others
	}
	for _, b := range d.borne() {
		if !b.by(present) && !slices.ContainsFunc(d.neverPresent(), b.by) {
			others = max(others, b.generation)
		}
	}
	if d.isSuperseded() && !slices.ContainsFunc(d.in.Evidence.Issued, present.Signed) {
		others = max(others, seen.key)
	}
	return others
}

// isSuperseded reports whether Secrets hold valid leaves of a key that was present after the
// present one.
func (d *decider) isSuperseded() bool {
	return slices.ContainsFunc(d.in.Evidence.Issued, func(leaf *x509.Certificate) bool {
		known := append(d.neverPresent(), d.d.Authority.Key())
		by := func(k pki.PrivateKey) bool { return k.Signed(leaf) }
		return d.in.Now.Before(leaf.NotAfter) && !slices.ContainsFunc(known, by) &&
			d.in.Names.GenerationIn(leaf.Issuer.CommonName) >= d.d.KeyGeneration
	})
}

// neverPresent are the keys that have had no generation yet, or never had one.
func (d *decider) neverPresent() []pki.PrivateKey {
	var keys []pki.PrivateKey
	if d.d.Pending != nil {
		keys = append(keys, d.d.Pending.Incoming.Key())
	}
	for _, r := range d.retired {
		if len(r.filed) == 0 && !r.key.IsZero() {
			keys = append(keys, r.key)
		}
	}
	return keys
}

// raiseGenerations undoes that generations were lowered, by hand or with a backup: each is at
// least the highest that is known of its bearer, and higher than those of others.
func (d *decider) raiseGenerations() error {
	names, seen := d.in.Names, d.in.Evidence.generations()
	if d.found == nil && (d.beginning || d.in.Paused) {
		return nil
	}
	key := max(d.d.KeyGeneration, seen.key)
	if d.d.Certificate != nil {
		key = max(key, names.generation(d.d.Certificate))
	}
	cert := d.d.CertGeneration
	if seen.cert > cert+d.ahead() {
		cert = seen.cert
	}
	if others := d.highestOfOthers(); !d.d.Authority.IsZero() && others >= key {
		// Another key was present after this one, which was put back.
		key = others + 1
		cert = max(cert, seen.cert+1, key)
	}
	if cert > d.d.CertGeneration {
		d.d.Warnings = append(d.d.Warnings, lowered(names.CertSecret, names.CertGeneration, d.d.CertGeneration, cert))
		d.d.CertGeneration = cert
	}
	if key > d.d.KeyGeneration {
		d.d.Warnings = append(d.d.Warnings, lowered(names.KeySecret, names.KeyGeneration, d.d.KeyGeneration, key))
		d.d.KeyGeneration = key
	}
	return nil
}

// ahead is how much higher the generation of a leaf may be than that of the present
// CA: one, while there may be leaves of an authority that was never present.
func (d *decider) ahead() Generation {
	neverPresent := func(r retiredKey) bool { return len(r.filed) == 0 }
	if d.d.Pending != nil || slices.ContainsFunc(d.retired, neverPresent) {
		return 1
	}
	return 0
}

// raiseGenerations is the same for a user's CA, whose annotations only the user writes.
func (u *userCA) raiseGenerations() {
	seen := u.in.Evidence.generations()
	if seen.cert > u.certGen {
		u.warnings = append(u.warnings, lowered(u.in.Names.CertSecret, u.in.Names.CertGeneration, u.certGen, seen.cert))
		u.certGen = seen.cert
	}
	if seen.key > u.keyGen {
		u.warnings = append(u.warnings, lowered(u.in.Names.KeySecret, u.in.Names.KeyGeneration, u.keyGen, seen.key))
		u.keyGen = seen.key
	}
}

func lowered(secret, annotation string, now, used Generation) Remark {
	return Remark{Secret: secret, Part: anyPart(annotation), Text: fmt.Sprintf(
		"annotation %s is %s, but pods or certificates already carry a higher one; %s is used instead, because a generation never goes backwards and is never given twice",
		annotation, now, used)}
}
