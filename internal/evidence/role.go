package evidence

import (
	"slices"

	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// Loads says what loads for a role that which is published.
type Loads uint8

// The ways of loading.
const (
	// WithServer: by its server, as its plane says.
	WithServer Loads = iota
	// WhenMounted: by itself, as soon as it is mounted.
	WhenMounted
)

// Role is one of the peers that a process is: a listener, a client, its agent.
type Role struct {
	publication.Store

	// Plane is where it takes part in the domain that it trusts, and says what it loads at its start only.
	Plane trust.Plane
	Loads Loads
	// Starts are the names under which a publication says what the role is started with.
	// The first that it has counts, and if it has none, the name of the role itself.
	Starts []publication.Role
	// Always is true for a role that a server has whenever it runs.
	Always bool
}

// atStart is what a publication gives to a role when its process starts.
func (r Role) atStart(p publication.Publication) []string {
	for _, name := range r.Starts {
		if trusts, found := p.Trust[name]; found {
			return trusts
		}
	}
	return p.Trust[r.Role]
}

// isNamedIn reports whether a publication says what the role is to trust.
func (r Role) isNamedIn(p publication.Publication) bool {
	return slices.ContainsFunc(append([]publication.Role{r.Role}, r.Starts...), func(name publication.Role) bool {
		_, found := p.Trust[name]
		return found
	})
}

// named is what a publication gives to a role that loads it.
func (r Role) named(p publication.Publication) []string {
	if r.Plane.Trust == trust.AtStart {
		return r.atStart(p)
	}
	return p.Trust[r.Role]
}
