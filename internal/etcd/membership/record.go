package membership

import "slices"

// Record is what the status shall have of the members, given what etcd answered. A member that has not started keeps
// what is recorded of it, and so do all when etcd did not answer.
func Record(members []Member, list []Listed) []Member {
	recorded := slices.Clone(members)
	for i := range recorded {
		at := slices.IndexFunc(list, func(l Listed) bool { return l.Name == recorded[i].Name })
		if at >= 0 && list[at].HasStarted {
			recorded[i].ID, recorded[i].IsVoter = list[at].ID, !list[at].IsLearner
		}
	}
	return recorded
}

// Created is what the status shall have once the pod of a member was created.
func Created(members []Member, name, podUID string) []Member {
	recorded := slices.Clone(members)
	if i := slices.IndexFunc(recorded, func(m Member) bool { return m.Name == name }); i >= 0 {
		recorded[i].PodUID = podUID
		return recorded
	}
	return append(recorded, Member{Name: name, PodUID: podUID})
}
