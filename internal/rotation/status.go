package rotation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Status is where a domain stands in detail, for people and programs.
type Status struct {
	Domain  string `json:"domain"`
	Phase   Phase  `json:"phase"`
	Message string `json:"message"`
	// StartedAt is when the rotation that is under way began.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// RecordedAt is when what it is read from last changed.
	RecordedAt time.Time          `json:"recordedAt"`
	Strategy   trust.StrategyKind `json:"strategy,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Progress   Progress           `json:"progress,omitzero"`
	Anchors    []AnchorStatus     `json:"anchors"`
	Members    []MemberStatus     `json:"members"`
	Blockers   []string           `json:"blockers,omitempty"`
	Deadline   time.Time          `json:"deadline,omitzero"`
}

// Progress counts the nodes and companions that have proven a step. All zero means
// that nothing moves.
type Progress struct {
	Members int `json:"members"`
	// Trust and Present count those whose listeners trust the new anchor, and
	// present its leaf.
	Trust   int `json:"trust"`
	Present int `json:"present"`
	// Distrust counts those whose roles of the main bundle trust no other anchor any more,
	// Closed those of which no listener trusts one, and no role presents what another
	// authority signed.
	Distrust int `json:"distrust"`
	Closed   int `json:"closed"`
}

// AnchorStatus is one CA certificate of the domain.
type AnchorStatus struct {
	Name string `json:"name"`
	// SHA1 is the name of its entries in the trusted-certs Secret.
	SHA1 string `json:"sha1"`
	// ID is what sentences and tables show the beginning of.
	ID    trust.AnchorID `json:"sha256"`
	State trust.State    `json:"state"`
	// Issuing is true of the one that shall stay.
	Issuing bool `json:"issuing,omitempty"`
	// Application is its place in ca.crt, counted from 1; 0 when it is not there.
	Application int       `json:"application"`
	NotAfter    time.Time `json:"notAfter"`
	Compromised bool      `json:"compromised,omitempty"`
	// CrossUntil is when a cross certificate for it is presented no longer; zero
	// when there is none.
	CrossUntil time.Time `json:"crossUntil,omitzero"`
}

// MemberStatus is one process, or a pod that should have one.
type MemberStatus struct {
	Name   trust.MemberID `json:"name"`
	Kind   string         `json:"kind"`
	Facts  MemberFacts    `json:"facts,omitzero"`
	Planes []PlaneStatus  `json:"planes"`
}

// Standing says how what a plane runs on relates to what is published to it.
type Standing string

// The standings.
const (
	// AsPublished: it runs on what is published, and would after a restart.
	AsPublished Standing = "as published"
	// Enough: it runs on something else, which serves until its process is restarted
	// for another reason.
	Enough Standing = "enough until a restart"
	// Behind: it runs on something else.
	Behind Standing = "behind"
	// NotMounted: it runs on something else, which is also what is mounted still.
	NotMounted Standing = "not mounted yet"
	// Unproven: it has not proven what it runs on.
	Unproven Standing = "unknown"
	// NoProcess: there is no process; it will load what it finds.
	NoProcess Standing = "no process"
)

// PlaneStatus is what the roles of one plane trust and present, if that is the
// same; otherwise a member has several of one plane.
type PlaneStatus struct {
	Plane string   `json:"plane"`
	Roles []string `json:"roles"`
	// Trusts and Presents are short names of anchors; Presents is empty of a role
	// that only verifies, and Trusts of one that only presents.
	Trusts   []string `json:"trusts,omitempty"`
	Presents string   `json:"presents,omitempty"`
	// Cross are those whose cross certificates are sent along.
	Cross    []string  `json:"cross,omitempty"`
	Standing Standing  `json:"standing"`
	Since    time.Time `json:"since,omitzero"`
}

// Status reads the record at a time.
func (r Record) Status(now time.Time) Status {
	s := r.Snapshot
	if now.After(s.Now) {
		s.Now = now
	}
	plan := r.planFor(s)
	v := newView(r.Words, s, plan)
	out := Status{
		Domain: r.Domain, Phase: r.Words.PhaseOf(s, plan), Message: r.Words.Message(s, plan, r.Subject()) + Refusal(r.Refused), RecordedAt: r.Snapshot.Now, StartedAt: r.StartedAt,
		Anchors: []AnchorStatus{}, Members: []MemberStatus{}, Deadline: plan.Deadline,
	}
	switch out.Phase {
	case Trusted, Paused:
	case AuthorityMissing:
		out.Blockers = unusable(r.Refused)
	default:
		out.Blockers = Waiting(slices.DeleteFunc(slices.Clone(plan.Blockers), func(b trust.Blocker) bool {
			return b.Guard == trust.GuardCrossUnneeded && len(v.others()) > 0
		}), s.Members)
	}
	if len(v.others()) > 0 {
		out.Strategy, out.Reason, out.Progress = plan.Strategy.Kind, plan.Strategy.Reason, v.progress()
	}
	for i := range s.Anchors {
		out.Anchors = append(out.Anchors, v.anchor(&s.Anchors[i], r.Anchors))
	}
	// The one that stays comes first, then what is held, by its end.
	slices.SortStableFunc(out.Anchors, func(a, b AnchorStatus) int {
		return cmp.Or(rank(a)-rank(b), b.NotAfter.Compare(a.NotAfter), cmp.Compare(a.ID, b.ID))
	})
	short := shortNames(r)
	for i := range s.Members {
		m := &s.Members[i]
		facts := r.Members[m.ID]
		if facts.RestartDue.IsZero() {
			facts.RestartDue = m.RestartDue(s.Policy.RestartMargin)
		}
		out.Members = append(out.Members, MemberStatus{Name: m.ID, Kind: r.Words.kind(m.Kind), Facts: facts, Planes: v.planesOf(m, short)})
	}
	return out
}

func rank(a AnchorStatus) int {
	switch {
	case a.Issuing:
		return 0
	case a.State != trust.Absent:
		return 1
	default:
		return 2
	}
}

func (w *Words) kind(k trust.MemberKind) string {
	switch k {
	case trust.Node:
		return w.Node
	case trust.Companion:
		return "companion"
	case trust.Operator:
		return "operator"
	default:
		return "user"
	}
}

func (v *view) anchor(a *trust.Anchor, names map[trust.AnchorID]AnchorName) AnchorStatus {
	out := AnchorStatus{
		Name: names[a.ID].CommonName, SHA1: cmp.Or(names[a.ID].SHA1, a.Name), ID: a.ID, State: a.Stored, Issuing: a.ID == v.Issuing,
		Application: slices.Index(v.Application.Anchors, a.ID) + 1, NotAfter: a.NotAfter, Compromised: a.Compromised,
	}
	for _, c := range a.Cross {
		if end := c.NotAfter.Add(-crossMargin); out.CrossUntil.IsZero() || end.Before(out.CrossUntil) {
			out.CrossUntil = end
		}
	}
	return out
}

// progress counts what members have proven. What is unknown does not count.
func (v *view) progress() Progress {
	var p Progress
	for i := range v.Members {
		m := &v.Members[i]
		if !v.counts(m) {
			continue
		}
		p.Members++
		only := func(r *trust.Role) bool { return !r.Verifies || !v.trustsOther(r) }
		p.Trust += every(m, loadsTrust, v.trustsTarget)
		p.Present += every(m, loadsIdentity, v.presentsTarget)
		p.Distrust += every(m, func(r *trust.Role) bool { return r.Plane.Bundle == trust.Main }, only)
		p.Closed += every(m, loadsTrust, only) * every(m, func(*trust.Role) bool { return true }, v.presentsTarget)
	}
	return p
}

// loadsTrust and loadsIdentity report whether a role comes to trust or to present what is published without being left for the
// next start of its process.
func loadsTrust(r *trust.Role) bool    { return r.Plane.Trust == trust.Reloading || r.Plane.Prompt }
func loadsIdentity(r *trust.Role) bool { return r.Plane.Identity == trust.Reloading }

// counts reports whether progress is counted of a member.
func (v *view) counts(m *trust.Member) bool {
	return v.target != nil && m.Kind != trust.Operator && m.Kind != trust.Holder
}

func (v *view) trustsTarget(r *trust.Role) bool {
	return !r.Verifies || slices.Contains(r.Evidence.Loaded.Trust, v.Issuing)
}

func (v *view) presentsTarget(r *trust.Role) bool {
	return !r.Presents || r.Evidence.Loaded.Identity.Signer == v.target.Key
}

// every is 1 if all roles that are asked about are known, and pass, else 0.
func every(m *trust.Member, asked, passes func(*trust.Role) bool) int {
	for i := range m.Roles {
		r := &m.Roles[i]
		if asked(r) && (r.Evidence.Process != trust.ProcessRunning || !passes(r)) {
			return 0
		}
	}
	return 1
}

func (v *view) trustsOther(r *trust.Role) bool {
	return slices.ContainsFunc(r.Evidence.Loaded.Trust, func(id trust.AnchorID) bool { return id != v.Issuing })
}

// shortNames are names of anchors and keys that fit into a table: what the common
// name adds to the domain's, and the SHA-256 where that is not unique.
func shortNames(r Record) map[string]string {
	out := map[string]string{}
	count := map[string]int{}
	plain := func(id trust.AnchorID) string {
		name := r.Anchors[id].CommonName
		if _, rest, isOurs := strings.Cut(name, r.Domain+" "); isOurs {
			return rest
		}
		return name
	}
	for _, a := range r.Snapshot.Anchors {
		count[plain(a.ID)]++
	}
	for _, a := range r.Snapshot.Anchors {
		name, short := plain(a.ID), Short(a.ID)
		switch {
		case name == "":
			name = short
		case count[name] > 1:
			name += " " + short
		}
		out[string(a.ID)] = name
		// Of anchors with one key the one that stays names it.
		if _, named := out[string(a.Key)]; !named || a.ID == r.Snapshot.Issuing {
			out[string(a.Key)] = name
		}
	}
	return out
}

func naming[T ~string](ids []T, short map[string]string) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		out = append(out, cmp.Or(short[string(id)], Short(trust.AnchorID(id))))
	}
	slices.Sort(out)
	return out
}
