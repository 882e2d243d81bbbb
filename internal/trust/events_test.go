package trust

import "slices"

// move is one thing that may happen next.
type move struct {
	what string
	to   state
}

// accidents are what happens without the operator: kubelets, crashes, people.
func (w *rules) accidents(s *state) []move {
	var out []move
	for i := range w.nodes {
		out = append(out, w.nodeAccidents(s, i)...)
	}
	if s.reader != s.app || s.readerFirst != s.appFirst || !s.aged {
		t := *s
		t.reader, t.readerFirst = s.app, s.appFirst
		out = append(out, move{"an application reads the bundle", t})
		t.aged = true
		out = append(out, move{"applications have had time to read the bundle", t})
	}
	return append(out, w.people(s)...)
}

func (w *rules) nodeAccidents(s *state, i int) []move {
	var out []move
	n := &s.nodes[i]
	if !n.joined {
		if s.left.join > 0 {
			t := *s
			t.left.join--
			t.nodes[i].joined = true
			out = append(out, move{who(i, "scale up by"), t})
		}
		return out
	}
	if !n.exists() {
		return nil // its pod is made once there is something to load
	}
	if n.restorable() {
		t := *s
		t.nodes[i].putBack()
		out = append(out, move{who(i, "somebody puts back the Secret of"), t})
	}
	if n.mounted != n.published && !n.secretLost() {
		t := *s
		t.nodes[i].mounted, t.nodes[i].between = n.published, pub{}
		out = append(out, move{who(i, "kubelet syncs the mounts of"), t})
	}
	if n.between != (pub{}) {
		t := *s
		t.nodes[i].mounted, t.nodes[i].between = n.between, pub{}
		out = append(out, move{who(i, "kubelet syncs an older publication to"), t})
	}
	for plane := range raftAt {
		if n.telling.has(plane) {
			t := *s
			t.nodes[i].takeOver(n.told, plane)
			t.nodes[i].heard(plane)
			out = append(out, move{who(i, "what it was told is taken over by the "+worldPlanes[plane].Name+" plane of"), t})
		}
	}
	if n.running && s.left.crash > 0 {
		t := *s
		t.left.crash--
		t.nodes[i].stop()
		out = append(out, move{who(i, "process ends in"), t})
	}
	if !n.running && w.startable(s, n) {
		t := *s
		w.launch(&t, i)
		out = append(out, move{who(i, "process starts in"), t})
	}
	if s.left.loseNode > 0 {
		t := *s
		t.left.loseNode--
		t.nodes[i].loseSecret()
		out = append(out, move{who(i, "somebody deletes the Secret of"), t})
	}
	if s.left.offer > 0 {
		for a := range w.issuers(s) {
			t := *s
			t.left.offer--
			if t.nodes[i].offered = a; a != n.offered {
				out = append(out, move{who(i, "the issuer issues by "+string(names[a])+" for"), t})
			}
		}
	}
	if s.left.lie > 0 {
		t := *s
		t.left.lie--
		t.nodes[i].lies = true
		out = append(out, move{who(i, "somebody takes over the agent of"), t})
	}
	if s.left.hide > 0 {
		t := *s
		t.left.hide--
		t.nodes[i].unseen = true
		out = append(out, move{who(i, "somebody takes the labels off"), t})
	}
	if s.left.recreate > 0 {
		t := *s
		t.left.recreate--
		w.recreate(&t, i)
		out = append(out, move{who(i, "somebody deletes the pod of"), t})
	}
	return out
}

// people replace authorities, change their minds, and lose Secrets.
func (w *rules) people(s *state) []move {
	var out []move
	if s.left.replace > 0 {
		t := *s
		t.left.replace--
		t.issuing++
		out = append(out, move{"the key is replaced: " + string(names[t.issuing]) + " is to issue", t})
	}
	if s.left.abort > 0 && s.issuing > 0 && s.stored[s.issuing-1] != 0 {
		t := *s
		t.left.abort--
		t.issuing--
		out = append(out, move{"the replacement is aborted: " + string(names[t.issuing]) + " is to issue", t})
	}
	if s.left.offer > 0 {
		for a := range w.issuers(s) {
			t := *s
			t.left.offer--
			t.offers(w, a)
			if t.offered != s.offered {
				out = append(out, move{"the issuer issues by " + string(names[a]) + " for the operator", t})
			}
		}
	}
	if s.left.lose > 0 {
		t := *s
		t.left.lose--
		t.stored = [maxAnchors]uint8{}
		out = append(out, move{"the trusted-certs Secret is lost", t})
	}
	if s.left.edit > 0 {
		for a := range maxAnchors {
			for _, want := range []State{TrustedUnused, InUseAll, PhaseOut} {
				t := *s
				t.left.edit--
				if t.stored[a] = stateIndex(want); t.stored != s.stored && s.stored[a] != 0 {
					out = append(out, move{"somebody edits the state of " + string(names[a]) + " to " + string(want), t})
				}
			}
		}
	}
	if s.left.off > 0 {
		t := *s
		t.left.off--
		t.off = true
		out = append(out, move{"reload is switched off", t})
	}
	if s.left.owner > 0 {
		t := *s
		t.left.owner--
		t.further++
		out = append(out, move{[...]string{ownerAdds: "the owner adds C", ownerTakes: "the owner takes C away"}[t.further], t})
	}
	if s.left.expire > 0 {
		t := *s
		t.left.expire--
		t.expired = true
		out = append(out, move{"A expires", t})
	}
	return out
}

func who(i int, what string) string { return what + " node " + string(rune('0'+i)) }

// issuers counts the authorities by which an issuer may sign.
func (w *rules) issuers(*state) int8 { return max(w.begin.replace, 1) + 1 }

// offers has the issuer issue the operator's certificate by an authority.
func (s *state) offers(w *rules, by int8) {
	s.offered = by
	if w.listed {
		s.issuing = by
	}
}

// stop ends the process; what it had loaded is gone.
func (n *node) stop() {
	n.running, n.late = false, false
	n.data, n.control, n.raft, n.staticData = store{}, store{}, store{}, 0
	n.told, n.telling = pub{}, 0
}

// loseSecret takes the publication out of the API server; what is mounted stays.
func (n *node) loseSecret() { n.backup, n.published = n.published, pub{ident: ident{signer: -1}} }

// putBack makes the Secret again as it was.
func (n *node) putBack() {
	n.publish(n.backup)
	n.backup = pub{}
}

// startable: the agent waits for what its pod is pinned to, and until every anchor
// that its publication names is mounted.
func (w *rules) startable(s *state, n *node) bool {
	if n.mounted.data == 0 {
		return false
	}
	for a := range maxAnchors {
		if w.named(n.mounted).has(a) && stateNames[s.stored[a]] == Absent {
			return false
		}
	}
	return true
}

// start is what Kafka does: persisted settings win over static ones, if the two
// verify each other on the inter-broker listener in both directions; otherwise all
// persisted settings are dropped. Raft clients take the static ones.
func (w *rules) start(n *node) {
	static := n.mounted
	n.running = true
	n.raft = static.controlStore()
	n.data, n.control, n.staticData = static.dataStore(), static.controlStore(), static.data
	agree := w.clients || w.accepts(static.data, n.persData.ident) && w.accepts(n.persData.trust, static.ident)
	if n.persisted && agree {
		n.data, n.control = n.persData, n.persCtl
	}
}

// recreate deletes the pod: the next one is pinned to what is published now.
func (w *rules) recreate(s *state, i int) {
	n := &s.nodes[i]
	n.stop()
	n.mounted, n.between = n.published, pub{}
	n.unseen = false
	if w.startable(s, n) {
		w.launch(s, i)
	}
}

// launch starts a node now.
func (w *rules) launch(s *state, i int) {
	w.start(&s.nodes[i])
	s.nodes[i].late = s.expired
}

// operates are the moves of the operator under a plan. Every object is a write of
// its own, in any order: a crash after each of them is a path of the walk.
func (w *rules) operates(s *state, silent mask, plan *Plan) []move {
	var out []move
	for _, c := range w.writes(s, plan) {
		t := *s
		c.do(&t)
		out = append(out, move{c.what, t})
	}
	for _, l := range plan.Loads {
		out = append(out, w.loads(s, l, silent)...)
	}
	return out
}

// writes are the objects that a plan wants otherwise than they are.
func (w *rules) writes(s *state, plan *Plan) []write {
	out := []write{w.writeStates(s, plan), w.writeApplication(s, plan)}
	for i := range w.nodes {
		if s.nodes[i].joined {
			out = append(out, w.writePublication(s, plan, i))
		}
	}
	out = append(out, w.writeLeaf(s, plan))
	if w.outside && !w.hasty {
		out = append(out, w.writeInterims(s, plan)...)
	}
	return slices.DeleteFunc(out, func(c write) bool {
		t := *s
		c.do(&t)
		return t == *s
	})
}

// write is one object as a plan wants it.
type write struct {
	what string
	do   func(*state)
	// same reports whether the object is the same in two states; a write that
	// was decided in one of them is refused in the other if it is not.
	same func(a, b *state) bool
}

func (w *rules) writeStates(s *state, plan *Plan) write {
	want := s.stored
	for a := range maxAnchors {
		if state, ok := plan.States[names[a]]; ok {
			want[a] = stateIndex(state)
		}
	}
	return write{
		what: "write trusted-certs",
		do:   func(t *state) { t.stored = want },
		same: func(a, b *state) bool { return a.stored == b.stored },
	}
}

func (w *rules) writeApplication(s *state, plan *Plan) write {
	app, first := maskOf(plan.Application), index(plan.Application[0])
	renewed := app&^s.app != 0 || first != s.appFirst
	return write{
		what: "write application bundle",
		do:   func(t *state) { t.app, t.appFirst, t.aged = app, first, t.aged && !renewed },
		same: func(a, b *state) bool { return a.app == b.app && a.appFirst == b.appFirst },
	}
}

func (w *rules) writePublication(s *state, plan *Plan, i int) write {
	p, now := plan.Publications[members[i]], s.nodes[i].published
	want := pub{data: maskOf(p.Main), control: maskOf(p.Late), ident: w.identOf(p.Identity)}
	if w.clients {
		want.control, want.ident = now.control, now.ident
	}
	if w.outside && !w.hasty && want.ident.signer != s.nodes[i].offered && want.ident.signer != now.ident.signer {
		want.ident = now.ident // it is not adopted
		if now.ident.signer < 0 {
			want = now
		}
	}
	if w.hasty {
		want.ident.signer = s.nodes[i].offered
	}
	if !w.outside && want.ident.signer >= 0 && w.lost.has(int(want.ident.signer)) && want.ident.signer != now.ident.signer {
		want = now // nobody can sign it
	}
	return write{
		what: who(i, "write publication of"),
		do: func(t *state) {
			t.nodes[i].publish(want)
			t.nodes[i].forgetBackup()
		},
		same: func(a, b *state) bool { return a.nodes[i].published == b.nodes[i].published },
	}
}

// writeInterims give members what their issuer has issued and they may be given if they need it.
func (w *rules) writeInterims(s *state, plan *Plan) []write {
	var out []write
	for i := range w.nodes {
		offered := s.nodes[i].offered
		if s.nodes[i].joined && slices.Contains(plan.Interim[members[i]], keys[w.keyOf[offered]]) {
			p := plan.Publications[members[i]]
			want := pub{data: maskOf(p.Main), control: maskOf(p.Late), ident: ident{signer: offered}}
			out = append(out, write{
				what: who(i, "write publication with the leaf that is offered of"),
				do: func(t *state) {
					t.nodes[i].publish(want)
					t.nodes[i].forgetBackup()
				},
				same: func(a, b *state) bool { return a.nodes[i].published == b.nodes[i].published },
			})
		}
	}
	if slices.Contains(plan.Interim["operator"], keys[w.keyOf[s.offered]]) {
		leaf := ident{signer: s.offered}
		out = append(out, write{"write the operator identity that is offered", func(t *state) { t.operator = leaf }, func(a, b *state) bool { return a.operator == b.operator }})
	}
	return out
}

// forgetBackup: nobody puts back what is there.
func (n *node) forgetBackup() {
	if n.published.data != 0 {
		n.backup = pub{}
	}
}

// publish replaces the publication; one that was not mounted yet is between.
func (n *node) publish(p pub) {
	if n.mounted.data != 0 && n.mounted != n.published && p != n.published {
		n.between = n.published
	}
	n.published = p
}

// writeLeaf is the operator's own identity, or the leaf of a user.
func (w *rules) writeLeaf(s *state, plan *Plan) write {
	if w.clients {
		user := ident{signer: index(plan.Signer)}
		return write{"reissue the user's certificate", func(t *state) { t.user = user }, func(a, b *state) bool { return a.user == b.user }}
	}
	leaf := w.identOf(plan.Publications["operator"].Identity)
	if w.outside && leaf.signer != s.offered && leaf.signer != s.operator.signer {
		leaf = s.operator
	}
	return write{"write operator identity", func(t *state) { t.operator = leaf }, func(a, b *state) bool { return a.operator == b.operator }}
}

// loads are the moves that a load of a plan allows. Reloads go listener by
// listener, and only once what is published is mounted; restarts one pod at a
// time.
func (w *rules) loads(s *state, l Load, silent mask) []move {
	i := int(l.Member[len(l.Member)-1] - '0')
	n := &s.nodes[i]
	if silent.has(i) || l.MayBeDeferred && w.patient {
		return nil
	}
	if l.How == ByRestart {
		for j := range w.nodes {
			if j != i && s.nodes[j].joined && s.nodes[j].exists() && !s.nodes[j].running {
				return nil
			}
			if j != i && w.unconnected(s, &s.nodes[j]) && !w.unconnected(s, n) {
				return nil // the quorum is not whole, and this node is part of it
			}
		}
		t := *s
		w.recreate(&t, i)
		return []move{{who(i, "restart"), t}}
	}
	if l.How == ByForget {
		t := *s
		w.forget(&t.nodes[i])
		return []move{{who(i, "delete persisted settings of"), t}}
	}
	if n.mounted != n.published || !n.running {
		return nil
	}
	if w.slow {
		return w.tells(s, i, l.Planes)
	}
	var out []move
	for _, plane := range l.Planes {
		t := *s
		t.nodes[i].takeOver(n.mounted, numberOf(plane))
		if t != *s {
			out = append(out, move{who(i, "reload "+plane.Name+" plane of"), t})
		}
	}
	return out
}

// tells is the begin of a reload whose end is out of the agent's hands. It tells the
// server nothing else until then.
func (w *rules) tells(s *state, i int, planes []Plane) []move {
	if s.nodes[i].telling != 0 {
		return nil
	}
	t := *s
	m := &t.nodes[i]
	m.told = m.mounted
	for _, plane := range planes {
		m.telling |= 1 << numberOf(plane)
	}
	return []move{{who(i, "the agent tells the server of"), t}}
}

// takeOver is a reload of one plane.
func (n *node) takeOver(p pub, plane int) {
	if !n.persisted {
		n.persisted, n.persData, n.persCtl = true, n.data, n.control
	}
	if plane == dataAt {
		n.data = p.dataStore()
		n.persData = n.data
	} else {
		n.control = p.controlStore()
		n.persCtl = n.control
	}
}

// heard ends the telling in a plane.
func (n *node) heard(plane int) {
	if n.telling &^= 1 << plane; n.telling == 0 {
		n.told = pub{}
	}
}

// forget deletes what reloads persisted: the listeners fall back, at once, to what
// the process was started with.
func (w *rules) forget(n *node) {
	n.data = store{n.staticData, n.raft.ident}
	n.control = n.raft
	n.persisted, n.persData, n.persCtl = false, store{}, store{}
}
