package authority

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// maxHeld is how many CAs a sentence names; the rest is counted.
const maxHeld = 3

// nodesHold names, of an authority whose Secrets are lost, the CAs that nodes were told to
// trust, so that a person knows which backup to put back: the one that most of them use
// first. What is known by its fingerprint alone is named by that, and by who has issued
// the leaves that nodes present. It is empty when nodes hold nothing.
func nodesHold(in Input) string {
	names := heldCAs(in)
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > maxHeld {
		more = fmt.Sprintf(" and %d more", len(names)-maxHeld)
		names = names[:maxHeld]
	}
	return "; nodes trust " + strings.Join(names, ", ") + more
}

func heldCAs(in Input) []string {
	var names []string
	known := map[pki.Fingerprint]bool{}
	for _, anchor := range heldAnchors(in) {
		fingerprint := pki.FingerprintOf(anchor.Certificate)
		known[fingerprint] = true
		names = append(names, fmt.Sprintf("%q with SHA-256 fingerprint %s", anchor.Certificate.Subject, fingerprint))
	}
	for _, fingerprint := range in.Evidence.Named {
		if !known[fingerprint] {
			names = append(names, "the CA with SHA-256 fingerprint "+fingerprint.String()+issuedBy(in))
		}
	}
	return names
}

// heldAnchors are those that pods mount or agents show, and that nodes were told to
// trust: others were put there by hand, or are a lie. The one that is used most is first.
func heldAnchors(in Input) []Anchor {
	anchors := slices.DeleteFunc(StoredAnchors(in.TrustedCerts), func(a Anchor) bool {
		return len(in.Evidence.Named) > 0 && !in.Evidence.names(a.Certificate)
	})
	for _, cert := range in.Evidence.Reported {
		isKnown := func(a Anchor) bool { return sameCertificate(a.Certificate, cert) }
		if in.Evidence.names(cert) && !slices.ContainsFunc(anchors, isKnown) {
			anchors = append(anchors, Anchor{Certificate: cert, State: usedBy(cert, in.Evidence.Leaves)})
		}
	}
	slices.SortStableFunc(anchors, func(a, b Anchor) int {
		switch {
		case usedMore(a, b, in.Now):
			return -1
		case usedMore(b, a, in.Now):
			return 1
		default:
			return 0
		}
	})
	return anchors
}

// issuedBy names who has issued what nodes present.
func issuedBy(in Input) string {
	if len(in.Evidence.Leaves) == 0 || in.Names.Holders != Members {
		return ""
	}
	var issuers []string
	for _, leaf := range in.Evidence.Leaves {
		issuers = append(issuers, fmt.Sprintf("%q", leaf.Issuer))
	}
	slices.Sort(issuers)
	return " (leaves are issued by " + strings.Join(slices.Compact(issuers), ", ") + ")"
}
