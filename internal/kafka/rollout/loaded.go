package rollout

import (
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/publication"
)

// LoadReasons says what a node that reported must be restarted for, to have loaded
// what is published. No reasons means that it has.
func LoadReasons(published publication.Publication, stores []publication.Store, report publication.Report) []Reason {
	var reasons []Reason
	for _, store := range stores {
		loaded, found := report.Roles[store.Role]
		if !found {
			reasons = append(reasons, Reason{
				Code: PodSpecChanged,
				Note: fmt.Sprintf("listener %s has loaded no stores", store.Role),
			})
			continue
		}
		reasons = append(reasons, ofListener(published, store, loaded)...)
	}
	return once(reasons)
}

// Behind counts the listeners that run on something else than what is published.
func Behind(published publication.Publication, stores []publication.Store, report publication.Report) int {
	behind := 0
	for _, store := range stores {
		loaded, found := report.Roles[store.Role]
		if !found || len(ofListener(published, store, loaded)) > 0 {
			behind++
		}
	}
	return behind
}

func ofListener(published publication.Publication, store publication.Store, loaded publication.RoleReport) []Reason {
	var reasons []Reason
	if loaded.Presents != published.Identities[store.Identity] {
		reasons = append(reasons, Reason{
			Code: CertificatesChanged,
			Note: fmt.Sprintf("listener %s presents an older certificate", store.Role),
		})
	}
	if store.Identity == publication.NodeIdentity && loaded.Presents == published.Identities[store.Identity] &&
		!slices.Equal(loaded.Chain, published.Chain) {
		reasons = append(reasons, Reason{
			Code: CertificatesChanged,
			Note: fmt.Sprintf("listener %s presents another chain with its certificate", store.Role),
		})
	}
	wanted := published.Trust[store.Role]
	if lacks(loaded.Trusts, wanted) {
		reasons = append(reasons, Reason{
			Code: AuthorityRenewed,
			Note: fmt.Sprintf("listener %s does not trust a new CA yet", store.Role),
		})
	}
	if lacks(wanted, loaded.Trusts) {
		reasons = append(reasons, Reason{
			Code: TrustRemoved,
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
func once(reasons []Reason) []Reason {
	var kept []Reason
	for _, reason := range reasons {
		if !slices.ContainsFunc(kept, func(k Reason) bool { return k.Code == reason.Code }) {
			kept = append(kept, reason)
		}
	}
	return kept
}
