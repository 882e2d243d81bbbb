package domain

import (
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// DistrustedAnnotation of the trusted-certs Secret names the CA certificates that were distrusted and that nothing trusts any more, by
// the SHA-256 of their DER, with commas between. What pods were given, and what their agents report, does not bring them back.
const DistrustedAnnotation = "keyturn.dev/distrusted"

// maxDistrusted is how many are remembered: the last ones.
const maxDistrusted = 32

// distrustedBy are those that the Secret remembers. What is no fingerprint counts as none.
func distrustedBy(stored authority.Stored) []string {
	var names []string
	for name := range strings.SplitSeq(stored.Annotations[DistrustedAnnotation], namesSeparator) {
		if _, err := pki.ParseFingerprint(name); err == nil {
			names = append(names, name)
		}
	}
	return names[max(0, len(names)-maxDistrusted):]
}

// distrusted are those that the Secret is to remember, with what the plan removes from it. One that is trusted again is forgotten.
func (d *Decided) distrusted() []string {
	names := distrustedBy(d.seen.CA.TrustedCerts)
	for i := range d.Snapshot.Anchors {
		anchor := &d.Snapshot.Anchors[i]
		isRemoved := anchor.Compromised && anchor.Stored != trust.Absent && d.Plan.States[anchor.ID] == trust.Absent
		if isRemoved && !slices.Contains(names, string(anchor.ID)) {
			names = append(names, string(anchor.ID))
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return d.Plan.States[trust.AnchorID(name)] != trust.Absent })
	return names[max(0, len(names)-maxDistrusted):]
}
