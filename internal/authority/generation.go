package authority

import (
	"fmt"
	"slices"
)

// raiseGenerations undoes what somebody did who has lowered a generation by hand: it
// is at least what the name of the present CA says, and what dependants carry.
func (d *decider) raiseGenerations() error {
	if d.found == nil {
		return nil // it was made just now
	}
	seen := d.in.Evidence.generations()
	if cert := seen.cert; cert > d.d.CertGeneration+d.ahead() {
		d.d.Warnings = append(d.d.Warnings, lowered(d.in.Names.CertSecret, d.in.Names.CertGeneration, d.d.CertGeneration, cert))
		d.d.CertGeneration = cert
	}
	if key := max(seen.key, d.in.Names.generation(d.found)); key > d.d.KeyGeneration {
		d.d.Warnings = append(d.d.Warnings, lowered(d.in.Names.KeySecret, d.in.Names.KeyGeneration, d.d.KeyGeneration, key))
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

// raiseGenerations is the same for a user's CA, whose annotations nobody else writes.
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

func lowered(secret, annotation string, now, seen Generation) Remark {
	return Remark{Secret: secret, Part: anyPart(annotation), Text: fmt.Sprintf(
		"annotation %s is %s, but pods or certificates already carry %s; %s is used instead, because a generation never goes backwards",
		annotation, now, seen, seen)}
}
