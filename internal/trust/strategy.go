package trust

import "slices"

// StrategyKind says how the domain gets from the old authority to the new one.
type StrategyKind string

// The strategies.
const (
	// CrossSigned: nodes include a certificate in which the old key cross-signs the new one. So no peer is
	// cut off, whatever it trusts.
	CrossSigned StrategyKind = "CrossSigned"
	// Classic: every peer trusts both before any node presents the new one. A peer that trusts only the old
	// one, and never looks again, is cut off.
	Classic StrategyKind = "Classic"
	// SameKey: the certificate was renewed under its key; every leaf verifies
	// under either.
	SameKey StrategyKind = "SameKey"
)

// Strategy is the way that is taken, with its reason.
type Strategy struct {
	Kind   StrategyKind
	Reason string
}

// strategy is decided again each time from what the target's cross certificates cover: all other anchors
// that a peer may still rely on.
func (v *view) strategy() Strategy {
	replaced := false
	for i := range v.Anchors {
		a := &v.Anchors[i]
		if a.Key == v.target.Key || !v.matters(a) {
			continue
		}
		replaced = true
		if !slices.ContainsFunc(v.target.Cross, func(c Cross) bool { return c.Issuer == a.Key }) {
			reason := v.target.NoCross
			if reason == "" {
				reason = "the old CA has not signed the new one"
			}
			return Strategy{Kind: Classic, Reason: reason}
		}
	}
	if !replaced {
		return Strategy{Kind: SameKey, Reason: "the new CA has the key of the old one"}
	}
	return Strategy{Kind: CrossSigned, Reason: "every old CA has signed the new one"}
}

// matters reports whether a peer may still rely on the anchor. An expired anchor verifies nothing. But
// while it is stored, peers may run on it instead of the target, and still have to be led away from it.
func (v *view) matters(a *Anchor) bool {
	if a.Beside(v.Issuing) {
		return false // it stays
	}
	return a.Stored != Absent || slices.Contains(v.Application.Anchors, a.ID) && v.Now.Before(a.NotAfter)
}
