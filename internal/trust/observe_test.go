package trust

import (
	"slices"
	"time"
)

var members = [maxNodes]MemberID{"node 0", "node 1", "node 2"}

// lists are all subsets of the anchors, sorted, shared by all snapshots.
var lists = func() (out [1 << maxAnchors][]AnchorID) {
	for m := range out {
		for a := range maxAnchors {
			if mask(m).has(a) {
				out[m] = append(out[m], names[a])
			}
		}
	}
	return out
}()

var keyLists = func() (out [1 << maxAnchors][]KeyID) {
	for m := range out {
		for a := range maxAnchors {
			if mask(m).has(a) {
				out[m] = append(out[m], keys[a])
			}
		}
	}
	return out
}()

func index(id AnchorID) int8 { return int8(id[0] - 'A') }

func maskOf(ids []AnchorID) mask {
	var m mask
	for _, id := range ids {
		m |= 1 << index(id)
	}
	return m
}

// identOf turns an identity into the world's: the signer is an anchor with that
// key, the cross certificates are keys.
func (w *rules) identOf(i Identity) ident {
	out := ident{signer: -1}
	if i.Signer != "" {
		out.signer = int8(i.Signer[3] - 'A')
	}
	for _, k := range i.Cross {
		out.cross |= 1 << (k[3] - 'A')
	}
	return out
}

func (w *rules) identity(i ident) Identity {
	if i.signer < 0 {
		return Identity{}
	}
	return Identity{Signer: keys[w.keyOf[i.signer]], Cross: keyLists[i.cross]}
}

func (w *rules) stores(s store) Stores {
	return Stores{Trust: lists[s.trust], Identity: w.identity(s.ident)}
}

// observe is what the operator sees while some nodes do not answer.
func (w *rules) observe(s *state, silent mask) Snapshot {
	out := Snapshot{Now: worldTime, Issuing: names[s.issuing], Policy: w.policy}
	for a := range maxAnchors {
		introduced := w.credulous && a == liars && w.anyLie(s)
		if a > int(s.issuing) && s.stored[a] == 0 && !w.known(s, a) && !introduced && !w.kept(s, a) {
			continue
		}
		out.Anchors = append(out.Anchors, w.anchor(s, a))
	}
	out.Application.Anchors = append(out.Application.Anchors, names[s.appFirst])
	for a := range maxAnchors {
		if s.app.has(a) && int8(a) != s.appFirst {
			out.Application.Anchors = append(out.Application.Anchors, names[a])
		}
	}
	out.Application.Since = worldTime
	if s.aged {
		out.Application.Since = worldTime.Add(-time.Hour)
	}
	if s.off {
		out.Policy.Reload = RestartOnly
	}
	for i := range w.nodes {
		if s.nodes[i].joined {
			out.Members = append(out.Members, w.member(&s.nodes[i], i, silent.has(i)))
		}
	}
	if s.expired {
		out.Now = worldTime.Add(301 * day)
	}
	if w.clients {
		user := Stores{Identity: w.identity(s.user)}
		out.Members = append(out.Members, Member{
			ID: "user", Kind: Holder, Published: Publication{Identity: user.Identity},
			Roles: []Role{{Presents: true, Evidence: Evidence{Process: ProcessRunning, Loaded: user}}},
		})
		return out
	}
	operator := Stores{Identity: w.identity(s.operator)}
	out.Members = append(out.Members, Member{
		ID: "operator", Kind: Operator, Published: Publication{Identity: operator.Identity},
		Roles: []Role{{Presents: true, Evidence: Evidence{Process: ProcessRunning, Loaded: operator}}},
	})
	return out
}

// known reports whether an anchor that is not to issue any more still has its
// certificate somewhere: after an abort, what was to come is superseded.
func (w *rules) known(s *state, a int) bool { return w.begin.replace-s.left.replace >= int8(a) }

func (w *rules) anchor(s *state, a int) Anchor {
	end := worldTime.Add(300 * day)
	if a > 0 {
		end = worldTime.Add(600 * day)
	}
	out := Anchor{
		ID: names[a], Key: keys[w.keyOf[a]], NotAfter: end, Stored: stateNames[s.stored[a]],
		Compromised: w.compromised.has(a) && int8(a) != s.issuing, Signs: !w.lost.has(a),
	}
	out.Kept = w.kept(s, a) && !w.deaf
	out.Removed = a == theFurther && s.further == ownerTakes && !w.keeper
	for by := range maxAnchors {
		if w.cross[a].has(by) && w.known(s, by) {
			out.Cross = append(out.Cross, Cross{Issuer: keys[by], NotAfter: worldTime.Add(300 * day), Distrusted: w.compromised.has(by)})
		}
	}
	return out
}

// kept reports whether the owner wants an anchor trusted beside the one that issues.
func (w *rules) kept(s *state, a int) bool {
	return a == theFurther && s.further == ownerAdds || w.listed && a < int(w.issuers(s)) && a != int(s.issuing)
}

func (w *rules) anyLie(s *state) bool {
	return slices.ContainsFunc(s.nodes[:], func(n node) bool { return n.lies })
}

// lie is what a liar says of a role.
func (w *rules) lie(loaded Stores) Stores {
	if w.extra {
		return Stores{Trust: append(slices.Clone(loaded.Trust), names[liars]), Identity: loaded.Identity}
	}
	return Stores{Trust: []AnchorID{names[liars]}, Identity: Identity{Signer: keys[liars]}}
}

func (w *rules) member(n *node, i int, silent bool) Member {
	m := Member{ID: members[i], Kind: Node, Published: Publication{
		Main: lists[n.published.data], Late: lists[n.published.control], Identity: w.identity(n.published.ident),
	}}
	if w.companion(i) {
		m.Kind = Companion
	}
	if w.clients {
		m.Published.Late, m.Published.Identity = nil, Identity{}
	}
	planes := [...]struct {
		loaded, mounted, persisted, static store
	}{
		dataAt:    {n.data, n.mounted.dataStore(), n.persData, store{n.staticData, n.raft.ident}},
		controlAt: {n.control, n.mounted.controlStore(), n.persCtl, n.raft},
		raftAt:    {n.raft, n.mounted.controlStore(), store{}, n.raft},
	}
	m.Roles = make([]Role, 0, len(planes))
	for plane, held := range planes {
		if (w.clients || w.companion(i)) && plane != dataAt {
			break
		}
		r := Role{Name: worldPlanes[plane].Name, Plane: worldPlanes[plane], Verifies: true, Presents: !w.clients}
		if !silent || !n.exists() { // where there was never a Secret there was never a pod
			r.Evidence.Process = ProcessNone
			if unfound := n.unseen && w.byLabel; n.running && !unfound {
				r.Evidence.Process, r.Evidence.Loaded, r.Evidence.Static = ProcessRunning, w.stores(held.loaded), w.stores(held.static)
			}
			if n.mounted.data != 0 && n.mounted != n.published {
				r.Evidence.Mounted = []Stores{w.stores(held.mounted)}
			}
			if n.telling != 0 && n.told != n.published && plane != raftAt && !w.hidden {
				r.Evidence.Loading = []Stores{w.stores([...]store{n.told.dataStore(), n.told.controlStore()}[plane])}
			}
			if n.persisted && plane != raftAt {
				r.Evidence.Persisted = []Stores{w.stores(held.persisted)}
			}
		}
		if n.lies && r.Evidence.Process == ProcessRunning {
			r.Evidence.Loaded = w.lie(r.Evidence.Loaded)
		}
		m.Roles = append(m.Roles, r)
	}
	return m
}
