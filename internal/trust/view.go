package trust

import "slices"

// view is a snapshot with the questions that several guards ask.
type view struct {
	Snapshot

	law law
	key map[AnchorID]KeyID
	// peers are the members that count, excluded those that do not, with their reasons, and
	// doubted those that would not if there were others.
	peers             []*Member
	excluded, doubted []Exclusion
	target            *Anchor
	// renewed is true when the target shares its key with another anchor.
	renewed bool
	// answers remembers what each guard said about each anchor, and asked all
	// that they wait for.
	answers map[question]bool
	asked   []Blocker
	next    *Identity
	// lagging are the members that GuardMounted waits for.
	lagging map[MemberID]bool
}

// question is a guard asked about an anchor.
type question struct {
	guard  GuardName
	anchor AnchorID
}

func newView(s Snapshot, l law) *view {
	v := &view{Snapshot: s, law: l, key: make(map[AnchorID]KeyID, len(s.Anchors)), answers: map[question]bool{}, lagging: map[MemberID]bool{}}
	for i := range s.Anchors {
		v.key[s.Anchors[i].ID] = s.Anchors[i].Key
		if s.Anchors[i].ID == s.Issuing {
			v.target = &s.Anchors[i]
		}
	}
	v.renewed = v.target != nil && slices.ContainsFunc(s.Anchors, func(a Anchor) bool { return a.Key == v.target.Key && a.ID != s.Issuing })
	v.exclude()
	return v
}

// accepts reports whether a peer with that trust verifies that identity.
func (v *view) accepts(trust []AnchorID, i Identity) bool {
	for _, id := range trust {
		key, known := v.key[id]
		if known && (key == i.Signer || slices.Contains(i.Cross, key)) {
			return true
		}
	}
	return false
}

// blind reports whether all anchors of a trust have expired, so that it verifies no certificate at all. A
// change cannot cut other peers off from a peer that has nothing else.
func (v *view) blind(trust []AnchorID) bool {
	for _, id := range trust {
		i := slices.IndexFunc(v.Anchors, func(a Anchor) bool { return a.ID == id })
		if i < 0 || v.Now.Before(v.Anchors[i].NotAfter) {
			return false
		}
	}
	return len(trust) > 0
}

// signedBy is the identity that an anchor's authority issues: its leaf, with the
// cross certificates that are presented along. One that is near its end or
// distrusted goes as soon as no peer needs it.
func (v *view) signedBy(a *Anchor) Identity {
	i := Identity{Signer: a.Key}
	for _, c := range a.Cross {
		ends := c.Distrusted || !v.Now.Before(c.NotAfter.Add(-day))
		if c.Issuer != a.Key && (!ends || !v.open(GuardCrossUnneeded, a)) {
			i.Cross = append(i.Cross, c.Issuer)
		}
	}
	slices.Sort(i.Cross)
	return i
}

// future is the identity that the target will sign for every member.
func (v *view) future() Identity {
	if v.next == nil {
		next := v.signedBy(v.target)
		v.next = &next
	}
	return *v.next
}

// issued reports whether an identity counts as that anchor's. Of two anchors with one key the new one
// counts once it is trusted, because it verifies the leaf as well.
func (v *view) issued(i Identity, a *Anchor) bool {
	if i.Signer != a.Key || a.Key != v.target.Key || !v.renewed {
		return i.Signer == a.Key
	}
	return (a == v.target) == trusted(v.target.Stored)
}

// trusted reports whether a state says that every peer trusts the anchor.
func trusted(s State) bool { return s != Absent && s != Untrusted }

// silent reports whether it is unknown what the role holds. Silence does not count once everything but the
// target has expired. The expired anchors verify nothing any more, and may be the reason for the silence.
func (v *view) silent(r *Role) bool {
	return r.Evidence.Process == ProcessUnknown && !v.onlyTargetLives()
}

// onlyTargetLives reports whether there is a target, and there are other anchors, all
// of them expired.
func (v *view) onlyTargetLives() bool {
	if v.target == nil {
		return false
	}
	others := false
	for i := range v.Anchors {
		a := &v.Anchors[i]
		if v.target == nil || a.Key == v.target.Key {
			continue
		}
		if v.Now.Before(a.NotAfter) {
			return false
		}
		others = true
	}
	return others
}

// possible calls yield with everything the role holds or may come to hold without
// being asked; it returns false when that is not known. Of a member that was never
// given anything it is not known: another leader may be about to.
func (v *view) possible(m *Member, r *Role, yield func(Stores)) bool {
	if v.silent(r) || !m.published() {
		return false
	}
	if r.Evidence.Process == ProcessRunning {
		yield(r.Evidence.Loaded)
	}
	for _, s := range r.Evidence.Mounted {
		yield(s)
	}
	for _, s := range r.Evidence.Loading {
		yield(s)
	}
	for _, s := range r.Evidence.Persisted {
		yield(s)
	}
	yield(m.Published.To(r.Plane))
	return true
}

// roles calls yield for every role of every member that counts.
func (v *view) roles(yield func(*Member, *Role)) {
	for _, m := range v.peers {
		for j := range m.Roles {
			yield(m, &m.Roles[j])
		}
	}
}
