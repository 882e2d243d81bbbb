package membership

import "slices"

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
		recorded[i].PodUID = uid
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

// WithVersion is what the status shall have once the version of a member was set.
func WithVersion(members []Member, name, version string) []Member {
	recorded := slices.Clone(members)
	for i := range recorded {
		if recorded[i].Name == name {
			recorded[i].Version = version
		}
	}
	return recorded
}

// Forgotten is what the status shall have once a member was removed.
func Forgotten(members []Member, name string) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Name == name })
}
