package authority

import (
	"crypto/x509"
	"maps"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// Freeze is the decision about an authority that Decide refuses, for a cluster that
// runs: what is there is kept up, as far as that takes nothing that a person has to
// put right first. While only its specification is at fault, certificates are
// renewed by what can be used of it, and nothing else begins. Otherwise the decision
// is Held.
func Freeze(in Input) (Decision, error) {
	if len(in.Spec.problems(in.Names.Field)) > 0 {
		in.Spec = in.Spec.Usable()
		in.KeySecret = in.KeySecret.without(in.Names.ForceReplace)
		if d, err := Decide(in); err == nil {
			return d, nil
		}
	}
	o, _ := observe(in)
	return o.held(in)
}

// without is the Secret as if the annotation had not been set.
func (s Stored) without(annotation string) Stored {
	s.Annotations = maps.Clone(s.Annotations)
	delete(s.Annotations, annotation)
	return s
}

// held is what goes on without the Secrets of the authority: what pods mount, and
// the keys of it that are at hand. What pods do not mount is taken from nowhere,
// for it may be a stranger's.
func (o *observed) held(in Input) (Decision, error) {
	seen := in.Evidence.generations()
	d := Decision{
		Held: true, Certificate: o.mostUsed(in),
		CertGeneration: max(o.certGen, seen.cert, 0), KeyGeneration: max(o.keyGen, seen.key, 0),
	}
	for _, cert := range o.bundle {
		if o.mounts(cert) {
			d.Published = append(d.Published, cert)
		}
	}
	if len(d.Published) == 0 && d.Certificate != nil {
		d.Published = append(d.Published, d.Certificate)
	}
	for _, key := range o.keys() {
		cert := o.trustedOfKey(key)
		if cert == nil || pki.CheckValidAt(cert, in.Now) != nil {
			continue
		}
		ca, err := pki.NewAuthority(cert, key)
		if err != nil {
			return Decision{}, invalid(Problem{Object: in.keyObject(), Wrong: err.Error(), Remedy: "restore the CA and its key"})
		}
		d.Keys = append(d.Keys, ca)
	}
	return d, nil
}

// mostUsed is the anchor on which most of what peers present depends; nil when pods
// mount none.
func (o *observed) mostUsed(in Input) *x509.Certificate {
	sorted := slices.SortedStableFunc(slices.Values(o.trusted), func(a, b Anchor) int {
		if usedMore(a, b, in.Now) {
			return -1
		}
		return 1
	})
	if len(sorted) == 0 {
		return nil
	}
	return sorted[0].Certificate
}

func (o *observed) mounts(cert *x509.Certificate) bool {
	return slices.ContainsFunc(o.trusted, func(a Anchor) bool { return sameCertificate(a.Certificate, cert) })
}

// keys are the private keys that can be read, whatever they are kept for.
func (o *observed) keys() []pki.PrivateKey {
	keys := []pki.PrivateKey{o.key}
	if o.pending != nil {
		keys = append(keys, o.pending.Incoming.Key())
	}
	for _, retired := range o.retired {
		keys = append(keys, retired.key)
	}
	return slices.DeleteFunc(keys, pki.PrivateKey.IsZero)
}
