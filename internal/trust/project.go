package trust

import "slices"

// Stage is what one reconcile does, and which blockers it had to wait for before.
type Stage struct {
	Steps []Step
	// Strategy is the way the pass takes.
	Strategy Strategy
	// After lists who stood in the way before this stage could begin.
	After []Blocker
}

// Projection is the course of a rotation in which every member loads what it is told to.
type Projection struct {
	Stages []Stage
	// Blocked is what obeying does not solve; empty when the end is reached.
	Blocked []Blocker
}

// maxStages ends a projection that does not end by itself. No rotation has more
// passes than a few per anchor.
const maxStages = 200

// Project plays Decide to the end: members load what they are told to, silent members answer, and
// applications read.
func Project(s Snapshot) Projection {
	var (
		p     Projection
		after []Blocker
		cur   = s.clone()
	)
	for range maxStages {
		plan := Decide(cur)
		steps := Steps(cur, plan)
		now := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.MayBeDeferred })
		switch {
		case len(now) > 0:
			cur.write(plan)
			cur.load(plan.Loads, false)
			p.Stages = append(p.Stages, Stage{Steps: now, Strategy: plan.Strategy, After: after})
			after = nil
		case plan.Done:
			return p
		case cur.pass():
			after = plan.Blockers
		case len(steps) > 0:
			// Restarts that the rotation does not wait for come when all else is done.
			cur.load(plan.Loads, true)
			p.Stages = append(p.Stages, Stage{Steps: steps, Strategy: plan.Strategy, After: plan.Blockers})
			after = nil
		default:
			p.Blocked = plan.Blockers
			return p
		}
	}
	p.Blocked = []Blocker{{Who: "plan", What: "the plan never finishes, which is a bug in Keyturn: please report it"}}
	return p
}

func (s *Snapshot) clone() Snapshot {
	c := *s
	c.Anchors = slices.Clone(s.Anchors)
	c.Members = slices.Clone(s.Members)
	for i := range c.Members {
		c.Members[i].Roles = slices.Clone(c.Members[i].Roles)
	}
	return c
}

// write puts a plan's objects into the snapshot.
func (s *Snapshot) write(p Plan) {
	for i := range s.Anchors {
		s.Anchors[i].Stored = p.States[s.Anchors[i].ID]
	}
	grew := slices.ContainsFunc(p.Application, func(id AnchorID) bool { return !slices.Contains(s.Application.Anchors, id) })
	if grew || len(p.Application) > 0 && len(s.Application.Anchors) > 0 && p.Application[0] != s.Application.Anchors[0] {
		s.Application.Since = s.Now
	}
	s.Application.Anchors = p.Application
	for i := range s.Members {
		m := &s.Members[i]
		m.Published = p.Publications[m.ID]
		if m.Kind == Operator {
			m.Roles[0].Evidence.Loaded.Identity = m.Published.Identity
		}
		if m.Kind == Holder {
			s.reissue(m, p)
		}
	}
}

// reissue gives a holder a certificate of the anchor that signs now.
func (s *Snapshot) reissue(m *Member, p Plan) {
	for _, a := range s.Anchors {
		if a.ID == p.Signer {
			m.Published.Identity = Identity{Signer: a.Key}
			m.Roles[0].Evidence.Loaded.Identity = m.Published.Identity
		}
	}
}

// load lets members load what is asked of them. Members without a process start
// on what is published.
func (s *Snapshot) load(loads []Load, remainder bool) {
	for _, l := range loads {
		if l.MayBeDeferred == remainder {
			i := slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == l.Member })
			s.Members[i].obey(l)
		}
	}
}

// obey loads as asked. A reload leaves persisted settings behind, which win over
// what is published at every later start.
func (m *Member) obey(l Load) {
	for i := range m.Roles {
		r := &m.Roles[i]
		kept := r.Evidence.Persisted
		switch {
		case l.How == ByRestart && r.Plane.reloadsAny() && len(kept) > 0:
			r.Evidence.Loaded, r.Evidence.Static = kept[0], m.Published.To(r.Plane)
		case l.How == ByReload && slices.Contains(l.Planes, r.Plane):
			m.reload(r)
		case l.How == ByRestart || l.How == ByForget && r.Plane.reloadsAny():
			m.prove(r)
		}
	}
}

// reload makes a role run on as much of what is published to it as it can reload.
func (m *Member) reload(r *Role) {
	before, now := r.Evidence, m.Published.To(r.Plane)
	if r.Plane.Trust == AtStart {
		now.Trust = before.Loaded.Trust
	}
	if r.Plane.Identity == AtStart {
		now.Identity = before.Loaded.Identity
	}
	r.Evidence = Evidence{Process: ProcessRunning, Loaded: now, Static: before.Static, Since: before.Since}
	if r.Plane.Persists {
		r.Evidence.Persisted = []Stores{now}
	}
}

// prove makes a role run on what is published to it.
func (m *Member) prove(r *Role) {
	now := m.Published.To(r.Plane)
	r.Evidence = Evidence{Process: ProcessRunning, Loaded: now, Static: now, Since: r.Evidence.Since}
}

// pass lets the time pass that others need: members that are being removed end, silent
// members answer, kubelets sync, applications read. It reports whether that changed anything.
func (s *Snapshot) pass() bool {
	before := len(s.Members)
	s.Members = slices.DeleteFunc(s.Members, func(m Member) bool { return m.Leaving })
	changed := len(s.Members) < before
	for i := range s.Members {
		m := &s.Members[i]
		for j := range m.Roles {
			r := &m.Roles[j]
			if m.Kind != Operator && m.Kind != Holder && (r.Evidence.Process != ProcessRunning || len(r.Evidence.Mounted)+len(r.Evidence.Loading) > 0) {
				m.settle(r)
				changed = true
			}
		}
	}
	if ready := s.Application.Since.Add(s.Policy.Lead); s.Now.Before(ready) {
		s.Now, changed = ready, true
	}
	return changed
}

// settle ends silence and lag.
func (m *Member) settle(r *Role) {
	if r.Evidence.Process == ProcessRunning {
		r.Evidence.Mounted, r.Evidence.Loading = nil, nil
		return
	}
	m.prove(r)
}
