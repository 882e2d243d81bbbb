package model

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// CAChanged is the reason for a CA that is not the one that the members of its cluster trust.
const CAChanged Reason = "CAChanged"

// Trusted is what shows which CA of a plane the members of a cluster trust. Each source has a list of CAs.
type Trusted struct {
	// HasMembers is true when members are recorded.
	HasMembers bool
	// Pinned are the CAs that each pod was created to accept, and those that it was given since.
	Pinned [][]pki.Fingerprint
	// Presented is the certificate of each pod.
	Presented []*x509.Certificate
	// Used are the CAs that records in the operator's namespace name.
	Used []pki.Fingerprint
	// Published are the CAs in the Secret of each member. Processes in the namespace of the cluster may have changed them.
	Published [][]pki.Fingerprint
}

// Fingerprints are those of the names that are any.
func Fingerprints(names []string) []pki.Fingerprint {
	fingerprints := make([]pki.Fingerprint, 0, len(names))
	for _, name := range names {
		if fingerprint, err := pki.ParseFingerprint(name); err == nil {
			fingerprints = append(fingerprints, fingerprint)
		}
	}
	return fingerprints
}

// IsShown reports whether more than the Secrets of members shows which CA they trust.
func (t Trusted) IsShown() bool { return len(t.Pinned)+len(t.Used) > 0 }

// exists reports whether the plane has had a CA.
func (t Trusted) exists() bool { return t.HasMembers || len(t.expected()) > 0 }

// lists are those of the strongest source that has any.
func (t Trusted) lists() [][]pki.Fingerprint {
	switch {
	case len(t.Pinned) > 0:
		return t.Pinned
	case len(t.Used) > 0:
		return [][]pki.Fingerprint{t.Used}
	default:
		return t.Published
	}
}

// expected are the CAs of the strongest source, those that are in most lists first.
func (t Trusted) expected() []pki.Fingerprint {
	times := map[pki.Fingerprint]int{}
	for _, fingerprint := range slices.Concat(t.lists()...) {
		times[fingerprint]++
	}
	return slices.SortedFunc(maps.Keys(times), func(a, b pki.Fingerprint) int {
		if times[a] != times[b] {
			return times[b] - times[a]
		}
		return a.Compare(b)
	})
}

// isAnother reports whether the certificates of a CA, former ones included, are in fewer lists than they are missing from: a
// list that was changed is outweighed.
func (t Trusted) isAnother(certificates []*x509.Certificate) bool {
	balance := 0
	for _, list := range t.lists() {
		if slices.ContainsFunc(certificates, func(c *x509.Certificate) bool { return slices.Contains(list, pki.FingerprintOf(c)) }) {
			balance++
		} else {
			balance--
		}
	}
	return balance < 0
}

// isReplaced reports whether more pods present certificates of a successor of a CA than of those that are known: the Secrets are of
// a day before the CA was replaced, and members may have ceased to trust it. Each successor has a higher number in its name.
func (t Trusted) isReplaced(name string, ca *x509.Certificate, known []*x509.Certificate, now time.Time) bool {
	names, balance := authority.Names{Authority: name}, 0
	for _, leaf := range t.Presented {
		switch {
		case now.After(leaf.NotAfter):
		case slices.ContainsFunc(known, func(ca *x509.Certificate) bool { return pki.IssuedBy(leaf, ca) }):
			balance++
		case names.GenerationIn(leaf.Issuer.CommonName) > names.GenerationIn(ca.Subject.CommonName):
			balance--
		}
	}
	return balance < 0
}

// without leaves out what pods were given of CAs, where that leaves something.
func (t Trusted) without(cas []*x509.Certificate) Trusted {
	isKnown := func(given pki.Fingerprint) bool {
		return slices.ContainsFunc(cas, func(ca *x509.Certificate) bool { return pki.FingerprintOf(ca) == given })
	}
	var others [][]pki.Fingerprint
	for _, pinned := range t.Pinned {
		if rest := slices.DeleteFunc(slices.Clone(pinned), isKnown); len(rest) > 0 {
			others = append(others, rest)
		}
	}
	if len(others) > 0 {
		t.Pinned = others
	}
	return t
}

// maxExpected is how many fingerprints a message names.
const maxExpected = 2

// changed is the problem of a CA that must not be published: no member accepts certificates of it.
func (c Cluster) changed(plane contract.Plane, ca pki.Authority, trusted Trusted) Problem {
	expected := trusted.expected()
	names := make([]string, 0, maxExpected)
	for _, fingerprint := range expected[:min(len(expected), maxExpected)] {
		names = append(names, fingerprint.String())
	}
	return Problem{CAChanged, fmt.Sprintf(
		"The %s CA in the operator's namespace is not the one that the members trust. It is neither published nor used to sign. %s "+
			"Restore the Secrets %s and %s from a backup of this cluster. The SHA-256 fingerprint of the certificate must be %s. It is %s.",
		plane, Standing, c.Names.CAKeySecret(plane), c.Names.CACertSecret(plane), strings.Join(names, " or "), pki.FingerprintOf(ca.Certificate()))}
}
