package trust

import (
	"slices"
	"time"
)

// Snapshot is all that a decision may depend on.
type Snapshot struct {
	Now time.Time `json:"now,omitzero"`
	// Issuing is the anchor that shall sign everything in the end: the issuing
	// certificate of ca.crt, or of the pending key of a replacement.
	Issuing AnchorID `json:"issuing,omitempty"`
	// Anchors are all known CA certificates of the domain.
	Anchors     []Anchor    `json:"anchors,omitempty"`
	Application Application `json:"application"`
	Members     []Member    `json:"members,omitempty"`
	Policy      Policy      `json:"policy"`
}

// Application is the bundle that applications read.
type Application struct {
	// Anchors in their order: many readers take only the first.
	Anchors []AnchorID `json:"anchors,omitempty"`
	// Since is when an anchor last entered it, or its first entry changed.
	Since time.Time `json:"since,omitzero"`
}

// Policy is what people asked for.
type Policy struct {
	// Paused stops everything. Expiry goes on.
	Paused bool `json:"paused,omitempty"`
	// Reload says how peers get what is published.
	Reload Reload `json:"reload,omitempty"`
	// ReloadRefused says why peers are restarted although they could reload.
	ReloadRefused string `json:"reloadRefused,omitempty"`
	// Lead is how long applications get to read a new anchor before the first
	// node relies on it. It does not matter with a cross certificate.
	Lead time.Duration `json:"leadNanoseconds,omitempty"`
	// Retirement says when an unused anchor may go.
	Retirement Retirement `json:"retirement,omitempty"`
	// RestartMargin is how long before the end of what a role holds from its start its
	// process is restarted.
	RestartMargin time.Duration `json:"restartMarginNanoseconds,omitempty"`
	// Issuance says who signs the leaves of members.
	Issuance Issuance `json:"issuance,omitempty"`
}

// Issuance says where the key is that signs leaves.
type Issuance string

// The ways of getting a leaf.
const (
	// Held: the operator holds the key, and names which one signs.
	Held Issuance = ""
	// Offered: an issuer that holds the key offers leaves.
	Offered Issuance = "offered"
)

// Reload says which way of loading is taken where both exist.
type Reload string

// The ways of loading.
const (
	// ReloadProven: servers reload where that was proven to work.
	ReloadProven Reload = ""
	// RestartOnly: everything is loaded by restarts.
	RestartOnly Reload = "restartOnly"
)

// Retirement says when an anchor that no member presents any more may be removed.
type Retirement string

// The retirement policies.
const (
	// RetireUnused: as soon as no member presents it. For authorities whose leaves are all known.
	RetireUnused Retirement = ""
	// RetireExpired: at its own end, because others may hold leaves of it.
	RetireExpired Retirement = "expired"
)

// MemberID names a process, or a pod that should have one.
type MemberID string

// MemberKind says what kind of process a member is.
type MemberKind string

// The kinds of members.
const (
	// Node is a server node of the cluster. Nodes decide the states of anchors.
	Node MemberKind = ""
	// Companion is a client of the nodes that the operator runs beside them.
	Companion MemberKind = "companion"
	// Operator is the operator's own identity. It trusts every known anchor, so that it never locks itself
	// out.
	Operator MemberKind = "operator"
	// Holder is a client certificate: its client presents it until it expires or is replaced.
	Holder MemberKind = "holder"
)

// Member is a process with one publication and one or more roles.
type Member struct {
	ID   MemberID   `json:"id"`
	Kind MemberKind `json:"kind,omitempty"`
	// Restarts is true for a member that loads only when its process starts.
	Restarts bool `json:"restarts,omitempty"`
	// Leaving is true for a member that is being removed: nothing else is published to it,
	// and it counts until its process ends.
	Leaving bool `json:"leaving,omitempty"`
	// SecretLost is true for a member whose Secret is lost and cannot be written again, as the
	// domain of its certificate has found.
	SecretLost bool `json:"secretLost,omitempty"`
	// Published is what its Secret says it is to load.
	Published Publication `json:"published"`
	// LastsUntil is when the first thing ends that a start would give to those of its roles
	// that load at their start; zero when that is not known.
	LastsUntil time.Time `json:"lastsUntil,omitzero"`
	Roles      []Role    `json:"roles,omitempty"`
}

// Publication is what one member is to load.
type Publication struct {
	// Main and Late are the anchors of the bundles, sorted.
	Main     []AnchorID `json:"main,omitempty"`
	Late     []AnchorID `json:"late,omitempty"`
	Identity Identity   `json:"identity,omitzero"`
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
	Name  string `json:"name,omitempty"`
	Plane Plane  `json:"plane,omitzero"`
	// Verifies and Presents say in which way the role takes part in the domain.
	Verifies bool     `json:"verifies,omitempty"`
	Presents bool     `json:"presents,omitempty"`
	Evidence Evidence `json:"evidence"`
}

// Process says whether a process exists that could have loaded anything.
type Process string

// The kinds of proof about a process.
const (
	// ProcessUnknown: no proof of anything; it counts as old in every respect.
	ProcessUnknown Process = ""
	// ProcessRunning: Loaded is proven.
	ProcessRunning Process = "running"
	// ProcessNone: proven to have no process; it will load what it finds.
	ProcessNone Process = "none"
)

// Evidence is what a role has proven.
type Evidence struct {
	Process Process `json:"process,omitempty"`
	// Loaded is what the running process has loaded.
	Loaded Stores `json:"loaded,omitzero"`
	// Mounted is what the process would find if it started now. It is empty when
	// that is what is published; kubelets lag.
	Mounted []Stores `json:"mounted,omitempty"`
	// Loading is what the running process was told to load, besides what is published, while it is unknown
	// whether it has.
	Loading []Stores `json:"loading,omitempty"`
	// Persisted is what its server has persisted and would load at its start
	// instead of what it finds.
	Persisted []Stores `json:"persisted,omitempty"`
	// Static is what the running process was started with, and would fall back
	// to if its persisted settings were deleted. It matters only beside them.
	Static Stores `json:"static,omitzero"`
	// HeldUntil is the earliest end of anything that a role which loads at its start holds
	// since then, also of leaves that others have renewed by reload; zero when it is not
	// known.
	HeldUntil time.Time `json:"heldUntil,omitzero"`
	// Since is when the role began to be as it is.
	Since time.Time `json:"since,omitzero"`
}

// Same reports whether both prove the same, since whenever that is.
func (e *Evidence) Same(other *Evidence) bool {
	return e.Process == other.Process && e.HeldUntil.Equal(other.HeldUntil) && e.Loaded.same(other.Loaded) && e.Static.same(other.Static) &&
		slices.EqualFunc(e.Mounted, other.Mounted, Stores.same) &&
		slices.EqualFunc(e.Loading, other.Loading, Stores.same) &&
		slices.EqualFunc(e.Persisted, other.Persisted, Stores.same)
}
