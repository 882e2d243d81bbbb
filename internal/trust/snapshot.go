package trust

import (
	"slices"
	"time"
)

// Snapshot is all that a decision may depend on.
type Snapshot struct {
	Now time.Time
	// Issuing is the anchor that shall sign everything in the end: the issuing
	// certificate of ca.crt, or of the pending key of a replacement.
	Issuing AnchorID
	// Anchors are all CA certificates of the domain that anybody holds.
	Anchors     []Anchor
	Application Application
	Members     []Member
	Policy      Policy
}

// Application is the bundle that applications read.
type Application struct {
	// Anchors in their order: many readers take only the first.
	Anchors []AnchorID
	// Since is when an anchor last entered it, or its first entry changed.
	Since time.Time
}

// Policy is what people asked for.
type Policy struct {
	// Paused stops everything. Expiry goes on.
	Paused bool
	// Reload says how peers get what is published.
	Reload Reload
	// ReloadRefused says why peers are restarted although they could reload.
	ReloadRefused string
	// Lead is how long applications get to read a new anchor before the first
	// node relies on it. It does not matter with a cross certificate.
	Lead time.Duration
	// Retirement says when an unused anchor may go.
	Retirement Retirement
	// RestartMargin is how long before the end of what a role holds from its start its
	// process is restarted.
	RestartMargin time.Duration
	// Issuance says who signs the leaves of members.
	Issuance Issuance
}

// Issuance says where the key is that signs leaves.
type Issuance uint8

// The ways of getting a leaf.
const (
	// Held: the operator holds the key, and names which one signs.
	Held Issuance = iota
	// Offered: an issuer that holds the key offers leaves.
	Offered
)

// Reload says which way of loading is taken where both exist.
type Reload uint8

// The ways of loading.
const (
	// ReloadProven: servers reload where that was proven to work.
	ReloadProven Reload = iota
	// RestartOnly: everything is loaded by restarts.
	RestartOnly
)

// Retirement says when an anchor that nobody presents any more may go.
type Retirement uint8

// The retirement policies.
const (
	// RetireUnused: as soon as nobody presents it. For authorities whose leaves
	// are all known.
	RetireUnused Retirement = iota
	// RetireExpired: at its own end, because others may hold leaves of it.
	RetireExpired
)

// MemberID names a process, or a pod that should have one.
type MemberID string

// MemberKind says what kind of process a member is.
type MemberKind uint8

// The kinds of members.
const (
	// Node is a server node of the cluster. Nodes decide the states of anchors.
	Node MemberKind = iota
	// Companion is a client of the nodes that the operator runs beside them.
	Companion
	// Operator is the operator's own identity. It trusts every anchor that
	// anybody has, so that it never locks itself out.
	Operator
	// Holder is somebody's client certificate: it presents what it was given,
	// until it expires or is replaced.
	Holder
)

// Member is a process with one publication and one or more roles.
type Member struct {
	ID   MemberID
	Kind MemberKind
	// Restarts is true for a member that loads only when its process starts.
	Restarts bool
	// Leaving is true for a member that is being removed: nothing else is published to it,
	// and it counts until its process ends.
	Leaving bool
	// SecretLost is true for a member whose Secret is lost and cannot be written again, as the
	// domain of its certificate has found.
	SecretLost bool
	// Published is what its Secret says it is to load.
	Published Publication
	// LastsUntil is when the first thing ends that a start would give to those of its roles
	// that load at their start; zero when that is not known.
	LastsUntil time.Time
	Roles      []Role
}

// Publication is what one member is to load.
type Publication struct {
	// Main and Late are the anchors of the bundles, sorted.
	Main, Late []AnchorID
	Identity   Identity
}

// Same reports whether both say the same.
func (p Publication) Same(other Publication) bool {
	return slices.Equal(p.Main, other.Main) && slices.Equal(p.Late, other.Late) && p.Identity.same(other.Identity)
}

// To is what roles of the plane are to load.
func (p Publication) To(plane Plane) Stores {
	trust := p.Main
	if plane.Bundle == Late {
		trust = p.Late
	}
	return Stores{Trust: trust, Identity: p.Identity}
}

// published reports whether the member was ever given anything.
func (m *Member) published() bool {
	return len(m.Published.Main) > 0 || m.Published.Identity.Signer != ""
}

// presents reports whether the member presents leaves of this domain.
func (m *Member) presents() bool {
	return slices.ContainsFunc(m.Roles, func(r Role) bool { return r.Presents })
}

// mayRun reports whether the member is not proven to have no process, or has mounted
// what one would be started with.
func (m *Member) mayRun() bool {
	return slices.ContainsFunc(m.Roles, func(r Role) bool {
		return r.Evidence.Process != ProcessNone || len(r.Evidence.Mounted) > 0
	})
}

// takesLate reports whether the member has roles that trust the late bundle.
func (m *Member) takesLate() bool {
	return slices.ContainsFunc(m.Roles, func(r Role) bool { return r.Plane.Bundle == Late })
}

// Role is one peer: a role of a member.
type Role struct {
	Name  string
	Plane Plane
	// Verifies and Presents say in which way the role takes part in the domain.
	Verifies, Presents bool
	Evidence           Evidence
}

// Process says whether a process exists that could have loaded anything.
type Process uint8

// The kinds of proof about a process.
const (
	// ProcessUnknown: no proof of anything; it counts as old in every respect.
	ProcessUnknown Process = iota
	// ProcessRunning: Loaded is proven.
	ProcessRunning
	// ProcessNone: proven to have no process; it will load what it finds.
	ProcessNone
)

// Evidence is what a role has proven.
type Evidence struct {
	Process Process
	// Loaded is what the running process has loaded.
	Loaded Stores
	// Mounted is what the process would find if it started now. It is empty when
	// that is what is published; kubelets lag.
	Mounted []Stores
	// Loading is what the running process was told to load, besides what is published,
	// while nobody knows whether it has.
	Loading []Stores
	// Persisted is what its server has persisted and would load at its start
	// instead of what it finds.
	Persisted []Stores
	// Static is what the running process was started with, and would fall back
	// to if its persisted settings were deleted. It matters only beside them.
	Static Stores
	// HeldUntil is the earliest end of anything that a role which loads at its start holds
	// since then, also of leaves that others have renewed by reload; zero when it is not
	// known.
	HeldUntil time.Time
	// Since is when the role began to be as it is.
	Since time.Time
}

// Same reports whether both prove the same, since whenever that is.
func (e *Evidence) Same(other *Evidence) bool {
	return e.Process == other.Process && e.HeldUntil.Equal(other.HeldUntil) && e.Loaded.same(other.Loaded) && e.Static.same(other.Static) &&
		slices.EqualFunc(e.Mounted, other.Mounted, Stores.same) &&
		slices.EqualFunc(e.Loading, other.Loading, Stores.same) &&
		slices.EqualFunc(e.Persisted, other.Persisted, Stores.same)
}
