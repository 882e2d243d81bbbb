package publication

import (
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/rollout"
)

// Reasons says what a node that reported must be restarted for, to have loaded
// what is published. No reasons means that it has.
func Reasons(published Publication, stores []Store, report Report) []rollout.Reason {
	var reasons []rollout.Reason
	for _, store := range stores {
		loaded, found := report.Roles[store.Role]
		if !found {
			reasons = append(reasons, rollout.Reason{
				Code: rollout.PodSpecChanged,
				Note: fmt.Sprintf("listener %s has loaded no stores", store.Role),
			})
			continue
		}
		reasons = append(reasons, ofListener(published, store, loaded)...)
	}
	return once(reasons)
}

// Behind counts the listeners that run on something else than what is published.
func Behind(published Publication, stores []Store, report Report) int {
	behind := 0
	for _, store := range stores {
		loaded, found := report.Roles[store.Role]
		if !found || len(ofListener(published, store, loaded)) > 0 {
			behind++
		}
	}
	return behind
}

func ofListener(published Publication, store Store, loaded RoleReport) []rollout.Reason {
	var reasons []rollout.Reason
	if loaded.Presents != published.Identities[store.Identity] {
		reasons = append(reasons, rollout.Reason{
			Code: rollout.CertificatesChanged,
			Note: fmt.Sprintf("listener %s presents an older certificate", store.Role),
		})
	}
	if store.Identity == NodeIdentity && loaded.Presents == published.Identities[store.Identity] &&
		!slices.Equal(loaded.Chain, published.Chain) {
		reasons = append(reasons, rollout.Reason{
			Code: rollout.CertificatesChanged,
			Note: fmt.Sprintf("listener %s presents another chain with its certificate", store.Role),
		})
	}
	wanted := published.Trust[store.Role]
	if lacks(loaded.Trusts, wanted) {
		reasons = append(reasons, rollout.Reason{
			Code: rollout.AuthorityRenewed,
			Note: fmt.Sprintf("listener %s does not trust a new CA yet", store.Role),
		})
	}
	if lacks(wanted, loaded.Trusts) {
		reasons = append(reasons, rollout.Reason{
			Code: rollout.TrustRemoved,
			Note: fmt.Sprintf("listener %s still trusts a withdrawn CA", store.Role),
		})
	}
	return reasons
}

// lacks reports whether set has not all of elements.
func lacks(set, elements []string) bool {
	return slices.ContainsFunc(elements, func(e string) bool { return !slices.Contains(set, e) })
}

// once keeps the first reason of each code: a person wants to know why a pod
// restarts, not on how many listeners the same thing shows.
func once(reasons []rollout.Reason) []rollout.Reason {
	var kept []rollout.Reason
	for _, reason := range reasons {
		if !slices.ContainsFunc(kept, func(k rollout.Reason) bool { return k.Code == reason.Code }) {
			kept = append(kept, reason)
		}
	}
	return kept
}
