package publication

import (
	"maps"
	"slices"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// MaxAnswer is the longest answer of an agent that the operator reads, in bytes. The
// report of a node with many listeners may be longer, see MaxReport.
const MaxAnswer = 64 << 10

// reportPerRole is what a role takes in a report with eight anchors, a chain of three,
// and four publications that it may be loading.
const reportPerRole = 4 << 10

// MaxReport is the longest Report, in bytes of JSON, of a node with so many roles:
// its TLS listeners, its clients and its agent. How many there are is known from what the
// node was given, and never from the report; of more roles than any node has, no more is read.
func MaxReport(roles int) int { return max(MaxAnswer, min(roles, maxRoles)*reportPerRole) }

// The most of each part that an honest report has or has room for. A part that is empty
// takes a few bytes to write and a hundred to keep.
const (
	// maxRoles is twice what the 64 listeners come to that a server may have.
	maxRoles        = 128
	maxLoading      = 64
	maxCertificates = 1 << 10
)

// TooMany names a part of which the report has more than any node, if there is one.
func (r Report) TooMany() (what string, limit int, many bool) {
	publications := r.Loading
	if r.Mounted != nil {
		publications = append(slices.Clone(r.Loading), *r.Mounted)
	}
	named := func(p Publication) bool {
		return len(p.Trust) > maxRoles || len(p.Identities) > maxRoles
	}
	switch {
	case len(r.Roles)+len(r.Unknown) > maxRoles, slices.ContainsFunc(publications, named):
		return "roles", maxRoles, true
	case len(r.Loading) > maxLoading:
		return "publications", maxLoading, true
	case len(r.Certificates) > maxCertificates:
		return "certificates", maxCertificates, true
	default:
		return "", 0, false
	}
}

// Excerpt is the report with at most excerpt.Foreign bytes of each text in it: what
// agents say is kept for as long as their pods live.
func (r Report) Excerpt() Report {
	r.Reload.Failure = excerpt.Of(r.Reload.Failure, excerpt.Foreign)
	r.Unknown = texts(r.Unknown)
	r.Roles = named(r.Roles, func(role RoleReport) RoleReport {
		role.Trusts, role.Chain = texts(role.Trusts), texts(role.Chain)
		role.Presents = excerpt.Of(role.Presents, excerpt.Foreign)
		return role
	})
	r.Certificates = named(r.Certificates, func(der []byte) []byte { return der })
	r.Loading = slices.Clone(r.Loading)
	for i := range r.Loading {
		r.Loading[i] = r.Loading[i].excerpt()
	}
	if r.Mounted != nil {
		mounted := r.Mounted.excerpt()
		r.Mounted = &mounted
	}
	return r
}

func (p Publication) excerpt() Publication {
	text := func(s string) string { return excerpt.Of(s, excerpt.Foreign) }
	p.Identities, p.Proofs = named(p.Identities, text), named(p.Proofs, text)
	p.Trust = named(p.Trust, texts[string])
	p.Operators, p.Chain = texts(p.Operators), texts(p.Chain)
	p.Loading, p.Configuration = Loading(text(string(p.Loading))), text(p.Configuration)
	return p
}

func texts[T ~string](list []T) []T { return excerpt.Each(list, excerpt.Foreign) }

// named cuts the names and, by cut, what they name.
func named[K ~string, V any](list map[K]V, cut func(V) V) map[K]V {
	if list == nil {
		return nil
	}
	out := make(map[K]V, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		out[K(excerpt.Of(string(name), excerpt.Foreign))] = cut(list[name])
	}
	return out
}
