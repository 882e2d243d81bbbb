package membership

import (
	"cmp"
	"slices"
)

// Kinds of alarms.
const (
	// NoSpaceAlarm is raised by a member whose database has reached its quota. Etcd accepts no writes then.
	NoSpaceAlarm = "NOSPACE"
	// CorruptAlarm is raised about a member whose data differ from those of the others.
	CorruptAlarm = "CORRUPT"
)

// Alarm is one that etcd has until it is disarmed, also when the member that raised it is gone.
type Alarm struct {
	Kind string
	// ID is that of the member, as etcd has it.
	ID string
	// Name is that of the member; empty when etcd does not have it any more.
	Name string
}

// Owner names the member of an alarm to a person.
func (a Alarm) Owner() string {
	if a.Name == "" {
		return a.ID + ", which is removed from etcd"
	}
	return a.Name
}

// Size is how large the database of a member is, in bytes. Quota is 0 when it is not known.
type Size struct{ Total, InUse, Quota int64 }

// isFilling reports whether a database nears its quota: four fifths of it are used.
func (s Size) isFilling() bool { return s.Quota > 0 && s.Total/4 >= s.Quota/5 }

// Health is what members answered when they were looked at.
type Health struct {
	Alarms []Alarm
	// Filling are the members whose database nears its quota.
	Filling []string
	// Known are the members that etcd has; nil when none has answered.
	Known []Listed
	// IsSilent is true when no member has answered several times in a row.
	IsSilent bool
}

// Judge puts together what members answered, in an order that stays the same.
func Judge(alarms []Alarm, sizes map[string]Size, known []Listed) Health {
	h := Health{Alarms: slices.SortedFunc(slices.Values(alarms), func(a, b Alarm) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})}
	h.Known = slices.SortedFunc(slices.Values(known), func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	for name, size := range sizes {
		if size.isFilling() {
			h.Filling = append(h.Filling, name)
		}
	}
	slices.Sort(h.Filling)
	return h
}

// Owners names the members with an alarm of a kind.
func (h Health) Owners(kind string) []string {
	var owners []string
	for _, alarm := range h.Alarms {
		if alarm.Kind == kind {
			owners = append(owners, alarm.Owner())
		}
	}
	return owners
}

// isDoubted reports whether etcd was seen with other members than those that are recorded.
func (o Observed) isDoubted() bool {
	if o.Known == nil {
		return false
	}
	return len(o.Known) != len(o.Members) || slices.ContainsFunc(o.Known, func(l Listed) bool { return l.OwnURL != "" }) || slices.ContainsFunc(o.Members, func(m Member) bool {
		i := slices.IndexFunc(o.Known, func(l Listed) bool { return l.ID == m.ID })
		return i < 0 || o.Known[i].IsLearner == m.IsVoter
	})
}
