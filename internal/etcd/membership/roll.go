package membership

import (
	"cmp"
	"slices"
)

// maxLag is how many entries of the log a member may have to apply when another one is restarted. Members are asked
// one after the other, while clients write.
const maxLag = 5000

// isOutdated reports whether a member does not run the version that it shall run, or with other CAs. The version is recorded before
// the pod goes: a pod that is lost for any other reason comes back as it was.
func (o Observed) isOutdated(m Member) bool {
	pod, exists := o.Pods[m.Name]
	return m.Version != o.Version || exists && (pod.Version != m.Version || pod.IsStale)
}

// stuck gives another version to a member that does not serve: there is nothing to wait for. Etcd may run in its pod
// nevertheless, so that the pod goes only when the others are a quorum, or when there are no others.
func (o Observed) stuck() (Decision, bool) {
	for _, m := range o.Members {
		pod, exists := o.Pods[m.Name]
		if !exists || pod.IsReady || pod.IsEnding || !o.isOutdated(m) {
			continue
		}
		if m.Version != o.Version {
			return o.restart(m), true
		}
		if voters := o.voters(); pod.MayRun && len(o.Members) > 1 && count(voters) < quorum(len(voters)) {
			continue
		}
		return o.restart(m), true
	}
	return Decision{}, false
}

// roll gives another version to one member after the other, those that follow first. All must serve before the next.
func (o Observed) roll() (Decision, bool) {
	outdated := slices.DeleteFunc(slices.Clone(o.Members), func(m Member) bool { return !o.isOutdated(m) })
	if len(outdated) == 0 {
		return Decision{}, false
	}
	next := slices.MinFunc(outdated, func(a, b Member) int { return cmp.Compare(o.turn(a), o.turn(b)) })
	if obstacle := o.unhealthy(); obstacle != nil {
		return Decision{Act: Rest{}, Obstacle: obstacle, Again: len(o.unready()) == 0}, true
	}
	others := slices.DeleteFunc(o.voters(), func(l Listed) bool { return l.Name == next.Name })
	listed, _ := o.listed(next)
	switch {
	case o.Ephemeral && len(others) == 0:
		return rest(Upgrading, "Member %s keeps its data in its pod, and etcd %s needs another pod. Nothing is done. Set spec.size to 3 first.", next.Name, o.Version), true
	case listed.IsLeader && len(others) > 0:
		return move(listed, others), true
	case o.Ephemeral:
		return o.remove(listed, Upgrading, "it keeps its data in its pod and comes back with etcd "+o.Version), true
	default:
		return o.restart(next), true
	}
}

// turn is when it is the turn of a member: one that was begun with, the followers, the leader.
func (o Observed) turn(m Member) int {
	listed, _ := o.listed(m)
	switch {
	case m.Version == o.Version && o.Pods[m.Name].Version != m.Version:
		return 0
	case listed.IsLeader:
		return 2
	default:
		return 1
	}
}

// restart records the version of a member, and in the next step deletes its pod.
func (o Observed) restart(m Member) Decision {
	var next Act = DeletePod{m.Name, o.Pods[m.Name].UID}
	if m.Version != o.Version {
		next = SetVersion{m.Name, o.Version}
	}
	if m.Version == o.Version && o.Pods[m.Name].IsStale {
		return act(next, Restarting, "Member %s is being restarted to load changed CAs.", m.Name)
	}
	return act(next, Upgrading, "Member %s is being restarted with etcd %s.", m.Name, o.Version)
}

// unhealthy says what is wrong with any member, nil when nothing is.
func (o Observed) unhealthy() *Obstacle {
	newest := uint64(0)
	for _, listed := range o.List {
		newest = max(newest, listed.Received)
	}
	for _, m := range o.Members {
		listed, _ := o.listed(m)
		var problem string
		switch {
		case !o.isUp(m) || !listed.Answers:
			problem = "is not ready"
		case listed.HasAlarm:
			problem = "has an alarm, which etcdctl alarm list shows"
		case listed.Applied+maxLag < newest:
			problem = "is catching up"
		default:
			continue
		}
		return rest(Upgrading, "Member %s %s. The next member is restarted with etcd %s when all are healthy.", m.Name, problem, o.Version).Obstacle
	}
	return nil
}
