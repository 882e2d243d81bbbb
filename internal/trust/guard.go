package trust

import (
	"slices"
	"time"
)

const day = 24 * time.Hour

// applications stands in blockers for all clients outside the operator's reach that verify the nodes.
const applications = "applications"

// GuardName names a guard in conditions, metrics and the plan.
type GuardName string

// The guards.
const (
	// GuardVerified: every peer verifies what the new authority will sign,
	// directly or through a cross certificate. Before leaves are switched.
	GuardVerified GuardName = "EveryPeerVerifiesNew"
	// GuardApplications: applications were given the new anchor, and without a
	// cross certificate the time to read it. Before leaves are switched.
	GuardApplications GuardName = "ApplicationsHadTime"
	// GuardListeners: every role that can reload its anchors trusts the new one itself. Before the
	// operator's identity turns, which carries no cross certificate, and before any other anchor is
	// withdrawn.
	GuardListeners GuardName = "EveryListenerTrustsNew"
	// GuardMainUnused: no role presents the old authority to those that trust the main bundle, or may come
	// to. Before the anchor is removed from that bundle.
	GuardMainUnused GuardName = "OldUnusedMain"
	// GuardLateUnused is the same for the late bundle; restarts that have time wait here.
	GuardLateUnused GuardName = "OldUnusedLate"
	// GuardListenersTurned: every role of the late bundle that reloads presents the new authority, so that
	// roles that load at their start need no other. Before those are started without it.
	GuardListenersTurned GuardName = "LateListenersTurned"
	// GuardRetired: the policy lets an unused anchor go.
	GuardRetired GuardName = "RetirementAllowed"
	// GuardDistrusted: no role trusts the old anchor any more, or may come to. Before it is removed from the
	// trusted-certs Secret.
	GuardDistrusted GuardName = "NobodyTrustsOld"
	// GuardCrossUnneeded: every peer verifies new leaves without the cross certificate. Before that is
	// removed from the chain.
	GuardCrossUnneeded GuardName = "CrossCertificateUnneeded"
	// GuardMounted: the member has mounted its latest publication, and its server is not still loading the
	// one before. Before it is given another. With two publications on their way, a late kubelet could mount
	// the first when it is no longer expected.
	GuardMounted GuardName = "LastPublicationMounted"
	// GuardRunning: nothing moves while the resource is paused.
	GuardRunning GuardName = "NotPaused"
)

// Blocker says what a guard waits for.
type Blocker struct {
	Guard GuardName
	// Anchor is the anchor that cannot move on.
	Anchor AnchorID
	// Who is the peer: member and role.
	Who string
	// What is one sentence for people, stable between passes.
	What string
	// Several is what the sentence says of Who, as it is said of several; empty where it
	// does not begin with Who.
	Several string
	// Since is when that began; zero when that is unknown.
	Since time.Time
	// UntilStart is true of a process that has to be started for that: until then
	// it will say the same.
	UntilStart bool
}

// guard is one rule: it returns the blockers that it waits for, and is open when there are none.
type guard struct {
	name     GuardName
	blockers func(*view, *Anchor) []Blocker
}

// law is all that decisions follow: what has to hold before something is done, and which members are not
// waited for. It is a value, so that a test can take each rule away and show that it was needed.
type law struct {
	guards     []guard
	exemptions []exemption
}

func theLaw() law { return law{guards: guards(), exemptions: exemptions()} }

// guards is the table of all guards.
func guards() []guard {
	return []guard{
		{GuardVerified, unverified},
		{GuardApplications, applicationsBehind},
		{GuardListeners, listenersBehind},
		{GuardMainUnused, shownToMain},
		{GuardListenersTurned, shownByListeners},
		{GuardLateUnused, shownToLate},
		{GuardRetired, notRetired},
		{GuardDistrusted, notDistrusted},
		{GuardCrossUnneeded, crossNeeded},
		{GuardMounted, mountsBehind},
	}
}

// open asks one guard about one anchor, once, and remembers the blockers that it waits for.
func (v *view) open(name GuardName, a *Anchor) bool {
	q := question{name, a.ID}
	if answer, ok := v.answers[q]; ok {
		return answer
	}
	v.answers[q] = true
	i := slices.IndexFunc(v.law.guards, func(g guard) bool { return g.name == name })
	if i < 0 {
		return true
	}
	waits := v.law.guards[i].blockers(v, a)
	for _, b := range waits {
		b.Guard, b.Anchor = name, a.ID
		v.asked = append(v.asked, b)
	}
	v.answers[q] = len(waits) == 0
	return len(waits) == 0
}

// blockersWhere collects a blocker for every role of which the test fails for something
// that it may hold. Roles without evidence are blockers.
func (v *view) blockersWhere(
	takesPart func(*Member, *Role) bool, fine func(*Member, *Role, Stores) bool, what saying,
) []Blocker {
	var out []Blocker
	v.roles(func(m *Member, r *Role) {
		if !takesPart(m, r) {
			return
		}
		good := true
		known := v.possible(m, r, func(s Stores) { good = good && fine(m, r, s) })
		switch {
		case !known:
			out = append(out, waitFor(m, r, unproven()))
		case !good:
			waits := waitFor(m, r, what)
			waits.UntilStart = what.of != nil && what.of(r.Plane) == AtStart
			out = append(out, waits)
		}
	})
	return out
}

// saying is what a blocker says: of one peer, and of several.
type saying struct {
	one, several string
	// of is how a plane loads what is spoken of; nil where nothing is to be loaded for it.
	of func(Plane) Loads
}

func ofTrust(p Plane) Loads    { return p.Trust }
func ofIdentity(p Plane) Loads { return p.Identity }

func unproven() saying {
	return saying{one: "has not proven what it trusts and presents", several: "have not proven what they trust and present"}
}

func waitFor(m *Member, r *Role, what saying) Blocker {
	who := string(m.ID)
	if r.Name != "" {
		who += " " + r.Name
	}
	return what.about(who, r.Evidence.Since)
}

func (s saying) about(who string, since time.Time) Blocker {
	return Blocker{Who: who, What: who + " " + s.one, Several: s.several, Since: since}
}

func verifies(_ *Member, r *Role) bool { return r.Verifies }

// unverified: every peer accepts the leaf of the new authority with its cross certificates. A peer that
// trusts only expired anchors accepts no leaf either way. Waiting for it would never end, because without
// a leaf that others accept its server cannot rejoin the quorum.
func unverified(v *view, _ *Anchor) []Blocker {
	future := v.future()
	return v.blockersWhere(verifies, func(_ *Member, _ *Role, s Stores) bool {
		return v.accepts(s.Trust, future) || v.blind(s.Trust)
	}, saying{"does not accept certificates of the new CA yet", "do not accept certificates of the new CA yet", ofTrust})
}

// applicationsBehind: applications cannot be asked; they are published to first.
// With a cross certificate they need no time, because what they knew still serves, and
// none either once nothing that they may have read serves them any more.
func applicationsBehind(v *view, a *Anchor) []Blocker {
	first := slices.IndexFunc(v.Application.Anchors, func(id AnchorID) bool { return v.key[id] == a.Key })
	switch {
	case first < 0:
		return []Blocker{{Who: applications, What: "ca.crt does not contain the new CA yet"}}
	case first > 0 && v.mayLead():
		return []Blocker{{Who: applications, What: "ca.crt does not begin with the new CA yet"}}
	case v.strategy().Kind == Classic && !v.onlyTargetLives():
		return v.applicationsReading()
	}
	return nil
}

// applicationsReading waits for the time that applications get to read a bundle.
func (v *view) applicationsReading() []Blocker {
	if !v.Now.Before(v.Application.Since.Add(v.Policy.Lead)) {
		return nil
	}
	return []Blocker{{Who: applications, What: "applications are given time to read the new CA", Since: v.Application.Since}}
}

// listenersBehind: every role that can reload its trust holds the new anchor itself.
func listenersBehind(v *view, a *Anchor) []Blocker {
	return v.blockersWhere(
		func(_ *Member, r *Role) bool { return r.Verifies && r.Plane.Trust == Reloading },
		func(_ *Member, _ *Role, s Stores) bool { return slices.Contains(s.Trust, a.ID) },
		saying{"does not trust the new CA yet", "do not trust the new CA yet", ofTrust})
}

// showsOld finds who of them may present what the target's anchor alone does not verify.
func (v *view) showsOld(presents func(*Member, *Role) bool) []Blocker {
	return v.blockersWhere(
		func(m *Member, r *Role) bool { return r.Presents && presents(m, r) },
		func(_ *Member, _ *Role, s Stores) bool {
			return s.Identity.Signer == "" || s.Identity.Signer == v.target.Key
		},
		saying{
			"still presents a certificate of the old CA, or might present one again",
			"still present certificates of the old CA, or might present them again",
			ofIdentity,
		})
}

// presentsTo selects the roles that present to those that trust the bundle. The operator presents to all.
func presentsTo(b Bundle) func(*Member, *Role) bool {
	return func(m *Member, r *Role) bool { return m.Kind == Operator || r.Plane.Bundle == b }
}

func shownToMain(v *view, _ *Anchor) []Blocker { return v.showsOld(presentsTo(Main)) }

func shownToLate(v *view, _ *Anchor) []Blocker { return v.showsOld(presentsTo(Late)) }

func shownByListeners(v *view, _ *Anchor) []Blocker {
	return v.showsOld(func(m *Member, r *Role) bool {
		return m.Kind != Operator && r.Plane.Bundle == Late && r.Plane.Identity == Reloading
	})
}

// notRetired: where others hold leaves that cannot be counted, only two things are proof: the anchor has
// expired, or its owner has removed it.
func notRetired(v *view, a *Anchor) []Blocker {
	if v.Policy.Retirement == RetireUnused || a.Compromised || a.Removed || !v.Now.Before(a.NotAfter) {
		return nil
	}
	return []Blocker{{Who: "retirement policy", What: "the old CA stays trusted until it expires on " + a.NotAfter.UTC().Format(time.DateOnly)}}
}

// notDistrusted: what a process read at its start and keeps in memory counts only
// against a compromised anchor; everything else counts always. So does silence,
// even about an expired anchor: a start waits until all that it names is mounted.
func notDistrusted(v *view, a *Anchor) []Blocker {
	waits := v.blockersWhere(
		func(_ *Member, r *Role) bool {
			return r.Evidence.Process != ProcessUnknown && (r.Verifies || r.Presents)
		},
		func(_ *Member, r *Role, s Stores) bool {
			if r.Presents && v.issued(s.Identity, a) {
				return false
			}
			inMemory := !a.Compromised && v.keeps(r, s.Trust, a)
			return !r.Verifies || inMemory || !slices.Contains(s.Trust, a.ID)
		},
		saying{"still trusts the old CA, or might trust it again", "still trust the old CA, or might trust it again", ofTrust})
	v.roles(func(m *Member, r *Role) {
		if r.Evidence.Process == ProcessUnknown {
			waits = append(waits, waitFor(m, r, unproven()))
		}
	})
	return waits
}

// crossNeeded: some peer verifies new leaves only by way of an old anchor.
func crossNeeded(v *view, a *Anchor) []Blocker {
	bare := Identity{Signer: a.Key}
	waits := v.blockersWhere(verifies, func(_ *Member, _ *Role, s Stores) bool {
		return v.accepts(s.Trust, bare)
	}, saying{"accepts new certificates only through the cross certificate", "accept new certificates only through the cross certificate", ofTrust})
	if len(v.Application.Anchors) == 0 || v.key[v.Application.Anchors[0]] != a.Key {
		return append(waits, Blocker{Who: applications, What: "ca.crt does not begin with the new CA yet"})
	}
	return append(waits, v.applicationsReading()...)
}

// mountsBehind lists the members with a publication on its way, or without evidence.
func mountsBehind(v *view, _ *Anchor) []Blocker {
	var out []Blocker
	for _, m := range v.peers {
		if m.Kind == Operator || m.Kind == Holder || !m.published() {
			continue
		}
		for j := range m.Roles {
			r := &m.Roles[j]
			what := saying{one: "has not mounted its latest Secret yet", several: "have not mounted their latest Secrets yet"}
			if len(r.Evidence.Mounted) == 0 && len(r.Evidence.Loading) > 0 {
				what = saying{
					one:     "might still load the certificates that it was given before the latest ones",
					several: "might still load the certificates that they were given before the latest ones",
				}
			}
			if r.Evidence.Process == ProcessUnknown || len(r.Evidence.Mounted) > 0 || len(r.Evidence.Loading) > 0 {
				v.lagging[m.ID] = true
				out = append(out, what.about(string(m.ID), r.Evidence.Since))
				break
			}
		}
	}
	return out
}
