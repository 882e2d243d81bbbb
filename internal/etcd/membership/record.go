package membership

import (
	"slices"
	"time"
)

// Record is what the status shall have of the members, given what etcd answered. A member that has not started keeps
// what is recorded of it, and so do all when etcd did not answer.
func Record(members []Member, list []Listed) []Member {
	recorded := slices.Clone(members)
	for i := range recorded {
		at := slices.IndexFunc(list, func(l Listed) bool {
			return l.HasStarted && l.Name == recorded[i].Name && (recorded[i].ID == "" || recorded[i].ID == l.ID)
		})
		if at >= 0 {
			recorded[i].ID = list[at].ID
			recorded[i].IsVoter = recorded[i].IsVoter || !list[at].IsLearner // never the other way
		}
	}
	return recorded
}

// Created is what the status shall have once the pod of a member was created.
func Created(members []Member, pod CreatePod, uid string) []Member {
	recorded := slices.Clone(members)
	if i := slices.IndexFunc(recorded, func(m Member) bool { return m.Name == pod.Name }); i >= 0 {
		recorded[i].PodUID, recorded[i].RestartingSince = uid, time.Time{}
		return recorded
	}
	return append(recorded, Member{Name: pod.Name, PodUID: uid, Version: pod.Version})
}

// Adopted is what the status shall have once a pod was taken over.
func Adopted(members []Member, adopted Member) []Member {
	return append(Forgotten(members, adopted.Name), adopted)
}

// WithLeaving is what the status shall have once it was decided whether a member is removed.
func WithLeaving(members []Member, name string, leaving bool) []Member {
	recorded := slices.Clone(members)
	for i := range recorded {
		if recorded[i].Name == name {
			recorded[i].IsLeaving = leaving
		}
	}
	return recorded
}

// WithRestarting is what the status shall have once it was decided to restart a member.
func WithRestarting(members []Member, restarting SetRestarting) []Member {
	recorded := slices.Clone(members)
	for i := range recorded {
		if recorded[i].Name == restarting.Name {
			recorded[i].Version, recorded[i].RestartingSince = restarting.Version, restarting.Since
		}
	}
	return recorded
}

// Restarted is what the status shall have of members whose restart is over.
func (o Observed) Restarted() []Member {
	recorded := slices.Clone(o.Members)
	for i, m := range recorded {
		if !m.RestartingSince.IsZero() && !o.isRestarting(m) {
			recorded[i].RestartingSince = time.Time{}
		}
	}
	return recorded
}

// Forgotten is what the status shall have once a member was removed.
func Forgotten(members []Member, name string) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Name == name })
}
