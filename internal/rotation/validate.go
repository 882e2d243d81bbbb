package rotation

import (
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/trust"
)

// validate rejects a record that no operator writes. What is decided from such a record would be wrong, or not be decided at all.
func (r Record) validate() error {
	s := &r.Snapshot
	for i := range s.Anchors {
		if err := validateAnchor(&s.Anchors[i]); err != nil {
			return err
		}
	}
	for i := range s.Members {
		if err := r.Words.validateMember(&s.Members[i]); err != nil {
			return err
		}
	}
	return validatePolicy(s.Policy)
}

func validateAnchor(a *trust.Anchor) error {
	if a.ID == "" {
		return fmt.Errorf("anchor %q has no fingerprint", a.Name)
	}
	return oneOf("state", a.Stored, trust.Absent, trust.Untrusted, trust.TrustedUnused, trust.InUseAny, trust.InUseAll, trust.PhaseOut)
}

func (w *Words) validateMember(m *trust.Member) error {
	if err := oneOf("kind", m.Kind, trust.Node, trust.Companion, trust.Operator, trust.Holder); err != nil {
		return err
	}
	if isClient := m.Kind == trust.Operator || m.Kind == trust.Holder; isClient && len(m.Roles) == 0 {
		return fmt.Errorf("member %q is a client without a role", m.ID)
	}
	for i := range m.Roles {
		role := &m.Roles[i]
		if known, isKnown := w.plane(role.Plane.Name); !isKnown || role.Plane != known {
			return fmt.Errorf("role %q of member %q is in the unknown plane %q", role.Name, m.ID, role.Plane.Name)
		}
		if err := oneOf("process", role.Evidence.Process, trust.ProcessUnknown, trust.ProcessRunning, trust.ProcessNone); err != nil {
			return err
		}
	}
	return nil
}

func validatePolicy(p trust.Policy) error {
	return errors.Join(
		oneOf("reload", p.Reload, trust.ReloadProven, trust.RestartOnly),
		oneOf("retirement", p.Retirement, trust.RetireUnused, trust.RetireExpired),
		oneOf("issuance", p.Issuance, trust.Held, trust.Offered),
	)
}

func oneOf[T ~string](what string, value T, known ...T) error {
	if !slices.Contains(known, value) {
		return fmt.Errorf("%s %q is none of %q", what, value, known)
	}
	return nil
}
