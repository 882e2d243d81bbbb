package rotation

import (
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Figures are what a scraper wants to know of a domain.
type Figures struct {
	Phase Phase
	// Deadline is when the first anchor ends that is to go; zero when there is none.
	Deadline time.Time
	// Blocked counts, by guard, the members that a rotation waits for.
	Blocked map[trust.GuardName]int
	// Behind counts, for each member that is not the operator or a user, the
	// listeners that run on something else than what is stored for them, or do not
	// say. Raft clients serve nobody; they have a restart-due time instead.
	Behind map[trust.MemberID]int
	// RestartDue is when the process of a member has to be restarted at the
	// latest; members without such a time are missing.
	RestartDue map[trust.MemberID]time.Time
}

// FiguresOf reads them off a snapshot and the plan that trust.Decide makes of it.
func FiguresOf(s trust.Snapshot, plan trust.Plan) Figures {
	v := newView(s, plan)
	f := Figures{
		Phase: PhaseOf(s, plan), Deadline: plan.Deadline,
		Blocked: map[trust.GuardName]int{}, Behind: map[trust.MemberID]int{}, RestartDue: map[trust.MemberID]time.Time{},
	}
	if f.Phase != Trusted {
		f.Blocked = blockedMembers(plan.Blockers)
	}
	for i := range s.Members {
		m := &s.Members[i]
		if due := m.RestartDue(s.Policy.RestartMargin); !due.IsZero() {
			f.RestartDue[m.ID] = due
		}
		if m.Kind == trust.Node || m.Kind == trust.Companion {
			f.Behind[m.ID] = v.behind(m)
		}
	}
	return f
}

// blockedMembers counts by guard; a member with several roles counts once.
func blockedMembers(blockers []trust.Blocker) map[trust.GuardName]int {
	counts, counted := map[trust.GuardName]int{}, map[string]bool{}
	for _, b := range blockers {
		who, _, _ := strings.Cut(b.Who, " ")
		if key := string(b.Guard) + " " + who; !counted[key] {
			counted[key] = true
			counts[b.Guard]++
		}
	}
	return counts
}

// behind counts the listeners of a member that run on something else than what is
// stored for them, or do not say.
func (v *view) behind(m *trust.Member) int {
	count := 0
	for i := range m.Roles {
		r := &m.Roles[i]
		if r.Plane != trust.Raft && slices.Contains([]Standing{Behind, NotMounted, Unproven}, v.standing(m, r)) {
			count++
		}
	}
	return count
}
