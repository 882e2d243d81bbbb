package rotation

import (
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/trust"
)

// Words are the names that one kind of server has for what is its own. The operator of that kind passes
// them in, with each record and for each question.
type Words struct {
	// Resource is what people call the resource that configures a cluster, for example
	// "the Cluster".
	Resource string
	// Pause is the annotation of the resource that keeps the operator's hands off it.
	Pause string
	// Restart is what people annotate pods with to have them restarted; empty where nothing asks for that.
	Restart string
	// Node is what people call a member that runs a server.
	Node string
	// Problem is the condition of the resource that says what is wrong with it.
	Problem string
	// KeySecret and CertSecret are how the Secrets of an authority are called: formats of the
	// names of its cluster and of its domain.
	KeySecret, CertSecret string
	// AgentPort is where the agents of pods are asked.
	AgentPort int
	// Users is the domain whose certificates users present, and Internal the one that no client knows; empty where there is none.
	Users, Internal string
	// Clients are what the clients of servers know.
	Clients ClientWords
	// Planes are the planes of the servers. Records name them.
	Planes []PlaneWords
	// RestartsPending is the phase in which only restarts are left that the rotation does not wait for. Only
	// Closing still accepts the old anchor, or Keeping presents an older certificate of the present one.
	RestartsPending Phase
	// Keeping are those that keep what they were started with, and Closing those that
	// accept the old anchor until they have all been restarted.
	Keeping, Closing string
}

// PlaneWords are what a plane is called. Its own name stands in records and tables.
type PlaneWords struct {
	trust.Plane

	// Parts is what belongs to the plane.
	Parts string
}

// ClientWords are what clients are called by what they know.
type ClientWords struct {
	// Rereading clients look again, and Pinned ones keep what they were given once. Each completes "a client that".
	Rereading, Pinned string
	// Meanwhile is what a cross certificate does for pinned clients only as long as this holds, too; empty where that is all.
	Meanwhile string
}

// plane is the plane of a name, and false where the servers have none of that name.
func (w *Words) plane(name string) (trust.Plane, bool) {
	for _, known := range w.Planes {
		if known.Name == name {
			return known.Plane, true
		}
	}
	return trust.Plane{}, false
}

// Subject is an authority of a cluster.
func (w *Words) Subject(cluster, domain string, anchors map[trust.AnchorID]AnchorName) Subject {
	return Subject{
		Anchors: anchors, KeySecret: fmt.Sprintf(w.KeySecret, cluster, domain), CertSecret: fmt.Sprintf(w.CertSecret, cluster, domain),
	}
}

// Listeners are what trusts a bundle: of several planes, what belongs to the first.
func (w *Words) Listeners(b trust.Bundle) string {
	return w.parts(func(p trust.Plane) bool { return p.Bundle == b })
}

// parts are what belongs to the first plane that is sought; nothing where there is none.
func (w *Words) parts(sought func(trust.Plane) bool) string {
	for _, known := range w.Planes {
		if sought(known.Plane) {
			return known.Parts
		}
	}
	return ""
}

// Phases are all phases.
func (w *Words) Phases() []Phase {
	return []Phase{
		Trusted, Establishing, Announcing, WaitingForTrust, WaitingForApplications, SwitchingLeaves, WaitingForLeaves,
		TurningOperator, WithdrawingOld, WaitingForDistrust, WaitingForUsers, w.RestartsPending, WaitingForExpiry, WaitingForOwner, Retiring,
		Loading, Paused, Blocked, AuthorityMissing,
	}
}

// Settled reports whether nothing is left to do now: everything is done, or the rest comes by itself with
// time. Clients that watch a rotation may stop then.
func (w *Words) Settled(p Phase) bool {
	return slices.Contains([]Phase{Trusted, w.RestartsPending, WaitingForExpiry, WaitingForOwner, WaitingForUsers}, p)
}
