package domains

import (
	"slices"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Named are CA certificates by plane, by the SHA-256 of their DER in lower-case hex.
type Named map[contract.Plane][]string

// Notes are what is noted on the pod of a member, in annotations that tenants cannot change; zero without a pod.
type Notes struct {
	// Given are the CAs that the pod was created to accept, and those that it was given since.
	Given publication.Given
	// Told is the newest revision that the pod is known to have.
	Told int64
}

// Published is what a member was told last. It is what its Secret says, if that names a CA in each plane, and only such that the
// pod was given or that are known. A Secret that is lost or that a tenant has changed says nothing: then the pod counts as told to
// trust all that it was given and that is known.
func (n Notes) Published(stored publication.Publication, known Named) publication.Publication {
	if n.isGiven(stored, known) {
		return stored
	}
	last := publication.Publication{Revision: n.Told, Trust: map[publication.Role][]string{}}
	for _, plane := range contract.Planes() {
		given := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(n.Given[Of(plane)]), func(name string) bool {
			return !slices.Contains(known[plane], name)
		})))
		if len(given) > 0 {
			last.Trust[plane.Role()] = slices.Compact(given)
		}
	}
	return last
}

func (n Notes) isGiven(stored publication.Publication, known Named) bool {
	return !slices.ContainsFunc(contract.Planes(), func(plane contract.Plane) bool {
		named := stored.Trust[plane.Role()]
		return len(named) == 0 || slices.ContainsFunc(named, func(name string) bool {
			return !slices.Contains(known[plane], name) && !slices.Contains(n.Given[Of(plane)], name)
		})
	})
}
