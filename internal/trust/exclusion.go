package trust

import "slices"

// Reason says why a member is excluded, as conditions and metrics carry it.
type Reason string

// The reasons for which the rotation does not wait for a member.
const (
	// UnknownClaims: it reports certificates of an authority that it was never given. Evidence confirms what
	// is known; it never introduces an authority.
	UnknownClaims Reason = "UnknownAuthorityClaimed"
	// NoSigner: it was never given a certificate, and the authority that the others
	// still use cannot sign one.
	NoSigner Reason = "NobodyCanSign"
	// SecretLost: what a process was given is lost, and no certificate can be issued for it. The rotation
	// waits for it, because it continues to present what it has.
	SecretLost Reason = "SecretLost"
)

// Exclusion is a member that the rotation does not wait for, so that it delays only itself. In Plan.NeedAttention
// it is one that is waited for and that only a person can help.
type Exclusion struct {
	Member MemberID
	Reason Reason
	// What is one sentence for people, stable between passes.
	What string
}

// exemption is a rule by which the rotation does not wait for a member.
type exemption struct {
	reason Reason
	// of says what is to be told of a member that is exempt, and nothing of others.
	of func(*view, *Member) string
}

// exemptions is the table of all reasons.
func exemptions() []exemption {
	return []exemption{
		{UnknownClaims, claimsUnknown},
		{NoSigner, lacksSigner},
	}
}

// exclude separates the members that count from those that are not waited for. Where every node reports
// something unknown, the nodes are not the ones to doubt, and all of them count. Without any the rotation
// would continue blindly.
func (v *view) exclude() {
	v.peers = make([]*Member, 0, len(v.Members))
	nodes := 0
	for i := range v.Members {
		m := &v.Members[i]
		if why, exempt := v.exempt(m); exempt {
			v.excluded = append(v.excluded, why)
			continue
		}
		v.peers = append(v.peers, m)
		if m.Kind == Node {
			nodes++
		}
	}
	if nodes > 0 {
		return
	}
	v.excluded = slices.DeleteFunc(v.excluded, func(a Exclusion) bool {
		i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == a.Member })
		doubted := a.Reason == UnknownClaims && v.Members[i].Kind == Node
		if doubted {
			v.peers = append(v.peers, &v.Members[i])
			v.doubted = append(v.doubted, a)
		}
		return doubted
	})
}

// needAttention are the members that are waited for and that only a person can help. Some are doubted and count
// all the same; the others lost their Secret while no certificate can be issued for them.
func (v *view) needAttention() []Exclusion {
	out := slices.Clone(v.doubted)
	for _, m := range v.peers {
		if v.unsigned(m) && !m.Leaving {
			out = append(out, Exclusion{Member: m.ID, Reason: SecretLost, What: string(m.ID) +
				" has lost its Secret, and no new certificate can be issued for it: the key of the CA that issued the one it presents is missing"})
		}
	}
	return out
}

func (v *view) exempt(m *Member) (Exclusion, bool) {
	if m.Kind != Node && m.Kind != Companion {
		return Exclusion{}, false
	}
	for _, e := range v.law.exemptions {
		if what := e.of(v, m); what != "" {
			return Exclusion{Member: m.ID, Reason: e.reason, What: string(m.ID) + " " + what}, true
		}
	}
	return Exclusion{}, false
}

// isExcluded reports whether the member is excluded for that reason.
func (v *view) isExcluded(m *Member, reason Reason) bool {
	return slices.ContainsFunc(v.excluded, func(a Exclusion) bool { return a.Member == m.ID && a.Reason == reason })
}

// claimsUnknown finds a member that names an unknown authority. A member that counts receives only known
// anchors, and an anchor stays known while any member trusts it. So the claim is false, or another
// controller configures the server.
func claimsUnknown(v *view, m *Member) string {
	for i := range m.Roles {
		r := &m.Roles[i]
		if slices.ContainsFunc(r.claims(), func(s Stores) bool { return v.unknown(r, s) }) {
			return r.Name + " claims to use certificates of a CA that it was never given"
		}
	}
	return ""
}

// claims are all stores that a role names.
func (r *Role) claims() []Stores {
	e := &r.Evidence
	claims := slices.Concat(e.Mounted, e.Loading, e.Persisted)
	if e.Process == ProcessRunning {
		claims = append(claims, e.Loaded)
	}
	return claims
}

// unknown reports whether stores hold something unknown. A role that loads at its start keeps withdrawn
// anchors in memory, so it may name one that is no longer known. But while another authority takes over
// nothing is withdrawn from it, so it may not name unknown anchors only.
func (v *view) unknown(r *Role, s Stores) bool {
	isKnown := func(id AnchorID) bool { _, known := v.key[id]; return known }
	switch {
	case r.Presents && s.Identity.Signer != "" && !v.knownKey(s.Identity.Signer):
		return true
	case !r.Verifies || len(s.Trust) == 0:
		return false
	case r.Plane.Trust == AtStart:
		return v.replacing() && !slices.ContainsFunc(s.Trust, isKnown)
	default:
		return slices.ContainsFunc(s.Trust, func(id AnchorID) bool { return !isKnown(id) })
	}
}

// replacing reports whether an anchor of another key than the target's is stored.
func (v *view) replacing() bool {
	return v.target != nil && slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Key != v.target.Key && a.Stored != Absent && !a.Beside(v.Issuing)
	})
}

func (v *view) knownKey(key KeyID) bool {
	return slices.ContainsFunc(v.Anchors, func(a Anchor) bool { return a.Key == key })
}

// lacksSigner finds a new member that cannot be given a certificate of the authority in use. The others
// must verify the new authority first, so it would wait for ever if they waited for it. A member that may
// run or start is not new: its Secret is lost.
func lacksSigner(v *view, m *Member) string {
	if m.mayRun() || !v.unsigned(m) {
		return ""
	}
	return "has no certificate yet, and the key of the CA in use is missing, so none can be issued; it gets one from the new CA once all other nodes accept that CA"
}

// unsigned reports whether a member has no certificate to start with, and cannot be
// given one that the others verify already.
func (v *view) unsigned(m *Member) bool {
	if m.SecretLost {
		return true
	}
	if v.Policy.Issuance == Offered {
		return false // its issuer signs by the CA that is in use
	}
	return (m.Kind == Node || m.Kind == Companion) && m.presents() && !m.published() && v.target != nil && v.target.Stored != Absent && !v.oldSigns()
}

// oldSigns reports whether any authority but the target can sign for a newcomer, or
// need not, because the target is the only one.
func (v *view) oldSigns() bool {
	others := false
	for i := range v.Anchors {
		a := &v.Anchors[i]
		if a.Key == v.target.Key || a.Stored == Absent || a.Beside(v.Issuing) {
			continue
		}
		if a.Signs {
			return true
		}
		others = true
	}
	return !others
}
