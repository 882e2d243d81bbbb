package rotation

import (
	"slices"

	"github.com/keyturn/keyturn/internal/trust"
)

// planesOf gathers the roles of a member that hold the same, by plane.
func (v *view) planesOf(m *trust.Member, short map[string]string) []PlaneStatus {
	out := make([]PlaneStatus, 0, len(m.Roles))
	for _, plane := range v.words.Planes {
		for i := range m.Roles {
			r := &m.Roles[i]
			if r.Plane == plane.Plane {
				out = join(out, v.describe(m, r, short))
			}
		}
	}
	return out
}

// join adds a role to those of its plane that hold the same.
func join(list []PlaneStatus, p PlaneStatus) []PlaneStatus {
	for i := range list {
		have := &list[i]
		if have.Plane != p.Plane || have.Standing != p.Standing || !agrees(have.Trusts, p.Trusts) ||
			have.Presents != "" && p.Presents != "" && (have.Presents != p.Presents || !slices.Equal(have.Cross, p.Cross)) {
			continue
		}
		have.Roles = append(have.Roles, p.Roles...)
		if len(have.Trusts) == 0 {
			have.Trusts = p.Trusts
		}
		if have.Presents == "" {
			have.Presents, have.Cross = p.Presents, p.Cross
		}
		if p.Since.After(have.Since) {
			have.Since = p.Since
		}
		return list
	}
	return append(list, p)
}

// agrees takes a role that does not verify for one that verifies as the others do.
func agrees(a, b []string) bool { return len(a) == 0 || len(b) == 0 || slices.Equal(a, b) }

func (v *view) describe(m *trust.Member, r *trust.Role, short map[string]string) PlaneStatus {
	p := PlaneStatus{Plane: r.Plane.Name, Roles: []string{r.Name}, Standing: v.standing(m, r), Since: r.Evidence.Since}
	if r.Evidence.Process != trust.ProcessRunning {
		return p
	}
	loaded := r.Evidence.Loaded
	if r.Verifies {
		p.Trusts = naming(loaded.Trust, short)
	}
	if r.Presents && loaded.Identity.Signer != "" {
		p.Presents = naming([]trust.KeyID{loaded.Identity.Signer}, short)[0]
		p.Cross = naming(loaded.Identity.Cross, short)
	}
	return p
}

// standing compares what a role runs on with what is published to it.
func (v *view) standing(m *trust.Member, r *trust.Role) Standing {
	held := &r.Evidence
	switch {
	case held.Process == trust.ProcessUnknown:
		return Unproven
	case held.Process == trust.ProcessNone:
		return NoProcess
	case m.Kind == trust.Holder || m.Kind == trust.Operator:
		return AsPublished
	case r.Holds(m.Published.To(r.Plane)):
		return AsPublished
	case !r.Plane.Reloads() && v.serves(m, r):
		return Enough
	case len(held.Mounted) > 0:
		return NotMounted
	default:
		return Behind
	}
}

// serves reports whether a role presents what it should, and verifies what the authority that stays has
// signed. It does no harm if it trusts more, or an older certificate of the same key.
func (v *view) serves(m *trust.Member, r *trust.Role) bool {
	loaded := r.Evidence.Loaded
	return v.target != nil && loaded.Identity.Signer == m.Published.Identity.Signer &&
		slices.ContainsFunc(v.Anchors, func(a trust.Anchor) bool { return a.Key == v.target.Key && slices.Contains(loaded.Trust, a.ID) })
}
