package trust

import "cmp"

// Bundle is one of the sets of anchors in a publication. Peers that talk to each other take
// the same one.
type Bundle uint8

// The bundles.
const (
	// Main is what most roles trust.
	Main Bundle = iota
	// Late is trusted by roles whose peers present what their processes were started with. An anchor is
	// removed from it last, which can take until all those processes have been restarted.
	Late
)

// Loads says when a role takes over what is published to it.
type Loads uint8

// The ways of loading.
const (
	// Reloading: when it is told to, where reload is proven.
	Reloading Loads = iota
	// AtStart: when its process starts, and never again.
	AtStart
)

// Plane groups the roles of a kind of server by the peers they talk to and by how they load. Each kind of
// server defines its own planes.
type Plane struct {
	// Name tells the planes of one kind of server apart.
	Name string
	// Bundle is what the roles of the plane trust. They present to those who take the same.
	Bundle Bundle
	// Trust and Identity say how its roles load what they trust, and what they present.
	Trust, Identity Loads
	// Persists is true when what its roles have reloaded wins over what is published at
	// every later start.
	Persists bool
	// Prompt is true when a process must not go on trusting what has been withdrawn from it, although it loads that at its
	// start only: it is restarted as soon as what is published to it is what it is to keep.
	Prompt bool
	// Keeper is what people call a role that loads something at its start only, with the
	// article; empty for a plane that reloads everything.
	Keeper string
}

// MarshalText renders a plane as its name.
func (p Plane) MarshalText() ([]byte, error) { return []byte(p.Name), nil }

// UnmarshalText reads the name of a plane. The rest of it is for the caller to fill in.
func (p *Plane) UnmarshalText(name []byte) error {
	*p = Plane{Name: string(name)}
	return nil
}

// Reloads reports whether the roles of a plane load everything without a restart where
// reload is proven.
func (p Plane) Reloads() bool { return p.Trust == Reloading && p.Identity == Reloading }

// reloadsAny reports whether its roles reload anything.
func (p Plane) reloadsAny() bool { return p.Trust == Reloading || p.Identity == Reloading }

// lateListener reports whether roles of the plane trust the late bundle, and reload it.
func (p Plane) lateListener() bool { return p.Bundle == Late && p.Trust == Reloading }

// compare orders planes by what has to be done to have them load: first those of the main
// bundle, and of the same those that reload.
func (p Plane) compare(other Plane) int {
	return cmp.Or(
		cmp.Compare(p.Bundle, other.Bundle), cmp.Compare(p.Trust, other.Trust), cmp.Compare(p.Identity, other.Identity),
		cmp.Compare(p.Name, other.Name))
}

// whyRestarted is why a process has to be restarted for a plane.
func (p Plane) whyRestarted() string {
	what := "certificates"
	if p.Identity == Reloading {
		what = "CA certificates"
	}
	return p.Keeper + " keeps the " + what + " that it was started with"
}
