package trust

import "slices"

// interim are the keys of which a member may be given a leaf that it needs before its issuer offers one of what is
// planned. Who presents a leaf of a key may be given another one: that stays verified by all while anything presents it, and
// until its anchor counts as ended.
// A member that has lost its leaf is given no trust without one, so that it may be given any that all others verify.
func (v *view) interim(m *Member, planned Publication) []KeyID {
	now := m.Published.Identity.Signer
	if v.Policy.Issuance != Offered || !m.presents() || now == v.target.Key {
		return nil
	}
	var keys []KeyID
	for i := range v.Anchors {
		a := &v.Anchors[i]
		may := a.Key == now && v.Now.Before(a.NotAfter) || !m.published() && m.takes(a, planned) && v.othersVerify(m, a)
		if may && a.Key != planned.Identity.Signer && !slices.Contains(keys, a.Key) {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// takes reports whether the member is given the anchor itself along with a leaf of it.
func (m *Member) takes(a *Anchor, planned Publication) bool {
	return m.Kind == Operator || slices.Contains(planned.Main, a.ID) && (!m.takesLate() || slices.Contains(planned.Late, a.ID))
}

// othersVerify reports whether everything but the member verifies leaves of the anchor by itself, and applications had
// the time to read it.
func (v *view) othersVerify(m *Member, a *Anchor) bool {
	identity := Identity{Signer: a.Key}
	return a.Stored != Absent && len(applicationsBehind(v, a)) == 0 && len(v.blockersWhere(
		func(other *Member, r *Role) bool { return other.ID != m.ID && r.Verifies },
		func(_ *Member, _ *Role, s Stores) bool { return v.accepts(s.Trust, identity) }, saying{})) == 0
}
