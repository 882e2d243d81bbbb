package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxLag is how many entries of the log a member may have to apply when another one is restarted. Members are asked
// one after the other, while clients write.
const maxLag = 5000

// isOutdated reports whether a member shall run in another pod. The version is recorded before the pod goes: a pod that
// is lost for any other reason comes back with the one before.
func (o Observed) isOutdated(m Member) bool {
	pod, exists := o.Pods[m.Name]
	return m.Version != o.Version || exists && (pod.Version != m.Version || pod.IsStale || pod.HasOldSpec || pod.AwaitsMount)
}

// keptVersion is what members keep when they shall go back a minor and cannot: once all have run the next one, etcd
// has written that down, and the previous one does not start. While a pod is known not to run it, there is a way back.
func (o Observed) keptVersion() (string, bool) {
	kept := ""
	for _, m := range o.Members {
		pod := o.Pods[m.Name]
		if !isMinorBelow(o.Version, pod.Version) || !pod.MayRun || pod.IsDown {
			return "", false
		}
		kept = pod.Version
	}
	return kept, kept != ""
}

// isMinorBelow compares versions, of which the patch does not count.
func isMinorBelow(a, b string) bool {
	return slices.Compare(minor(a), minor(b)) < 0
}

// minor has the numbers of a version up to the minor, none of what is no version.
func minor(version string) []int {
	var numbers []int
	for _, text := range strings.SplitN(version, ".", 3)[:min(2, strings.Count(version, ".")+1)] {
		number, err := strconv.Atoi(text)
		if err != nil {
			return nil
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// purpose is why a member gets another pod. One restart serves all.
func (o Observed) purpose(m Member) (Reason, string) {
	switch pod := o.Pods[m.Name]; {
	case m.Version != o.Version || pod.Version != m.Version:
		return Upgrading, "with etcd " + o.Version
	case pod.IsStale:
		return Restarting, "to load changed CAs"
	case pod.HasOldSpec:
		return Restarting, "to apply the changed spec"
	default:
		return Restarting, "to grow the file system of its volume"
	}
}

// stuck gives another pod to a member that does not serve: there is nothing to wait for. Etcd may run in its pod
// nevertheless, or its data be in it: then the pod goes only when the others are a quorum. Where no process runs, it
// goes in any case: a spec with which no member starts is corrected so.
func (o Observed) stuck() (Decision, bool) {
	for _, m := range o.Members {
		pod, exists := o.Pods[m.Name]
		if !exists || pod.IsReady || pod.IsEnding || !o.isOutdated(m) {
			continue
		}
		if m.Version != o.Version || !o.isMissed(m) || o.isQuorate() {
			return o.restart(m), true
		}
	}
	return Decision{}, false
}

// isMissed reports whether a member that does not serve may be missed without its pod: etcd may run in it, or its data
// be in it.
func (o Observed) isMissed(m Member) bool {
	pod := o.Pods[m.Name]
	return pod.MayRun && !pod.IsDown && len(o.Members) > 1 || o.Ephemeral && m.ID != ""
}

// isQuorate reports whether so many voters answer that others are not needed. One that is being started again is about to
// be missed.
func (o Observed) isQuorate() bool {
	voters, needed := o.voters(), quorum(len(o.voters()))
	due := o.due()
	for _, m := range o.Members {
		if o.isRestarting(m) || slices.Contains(due, m) && o.isBeingStarted(m) {
			voters = slices.DeleteFunc(voters, func(l Listed) bool { return l.Name == m.Name })
		}
	}
	return count(voters) >= needed
}

// roll gives another pod to one member after the other, those that follow first. All must serve before the next.
func (o Observed) roll() (Decision, bool) {
	outdated := slices.DeleteFunc(slices.Clone(o.Members), func(m Member) bool { return !o.isOutdated(m) })
	if len(outdated) == 0 {
		return Decision{}, false
	}
	next := slices.MinFunc(outdated, func(a, b Member) int { return cmp.Compare(o.turn(a), o.turn(b)) })
	reason, purpose := o.purpose(next)
	if problem := o.unhealthy(next); problem != "" {
		d := rest(reason, "%s. The next member is restarted %s when all are healthy.", problem, purpose)
		d.Again = len(o.unready()) == 0
		return d, true
	}
	others := slices.DeleteFunc(o.voters(), func(l Listed) bool { return l.Name == next.Name })
	listed, _ := o.listed(next)
	switch {
	case o.Ephemeral && len(others) == 0:
		return rest(reason, "Member %s is to be restarted %s, and keeps its data in its pod. Nothing is done. Set spec.size to 3 first.", next.Name, purpose), true
	case listed.IsLeader && len(others) > 0:
		return move(listed, others), true
	case o.Ephemeral:
		return o.remove(listed, reason, "it is to be restarted "+purpose+", and keeps its data in its pod"), true
	default:
		return o.restart(next), true
	}
}

// turn is when it is the turn of a member: one that was begun with, the followers, the leader.
func (o Observed) turn(m Member) int {
	listed, _ := o.listed(m)
	switch {
	case o.isRestarting(m), m.Version == o.Version && o.Pods[m.Name].Version != m.Version:
		return 0
	case listed.IsLeader:
		return 2
	default:
		return 1
	}
}

// restart deletes the pod of a member, once that and its version are recorded.
func (o Observed) restart(m Member) Decision {
	reason, purpose := o.purpose(m)
	return o.recordFirst(m, SetRestarting{m.Name, o.Version, o.Now},
		act(DeletePod{m.Name, o.Pods[m.Name].UID}, reason, "Member %s is being restarted %s.", m.Name, purpose))
}

// recordFirst records that a member is restarted before it is. An operator that has decided that and does not lead any more may do
// it at any time: meanwhile no other member that serves is restarted.
func (o Observed) recordFirst(m Member, record SetRestarting, restart Decision) Decision {
	isOther := func(other Member) bool { return other.Name != m.Name && o.isRestarting(other) }
	if i := slices.IndexFunc(o.Members, isOther); i >= 0 && o.serves(m) && !o.isUrgent() {
		return poll(restart.Obstacle.Reason, "Member %s is being restarted, and member %s once that is over. See the events of its pod if that lasts.", o.Members[i].Name, m.Name)
	}
	if !o.isRestarting(m) || m.Version != record.Version {
		restart.Act = record
	}
	return restart
}

// restartsWithin is how long after it was decided a member is restarted. A time to come is that of another clock, or forged.
const restartsWithin = 2 * time.Minute

// isRestarting reports whether a member is being restarted, or may be at any time because that was decided.
func (o Observed) isRestarting(m Member) bool {
	pod, exists := o.Pods[m.Name]
	isOver := !exists || pod.UID != m.PodUID || pod.HasLoaded && !o.isOutdated(m) || slices.Contains(o.Blocked, m.Name)
	return !isOver && !m.RestartingSince.IsZero() && o.Now.Sub(m.RestartingSince).Abs() < restartsWithin
}

// unhealthy says what is wrong with any member, nothing when nothing is. A member without space gets another pod of the same
// version: that may be how it gets a larger quota.
func (o Observed) unhealthy(next Member) string {
	blocking := slices.DeleteFunc(slices.Clone(o.Alarms), func(a Alarm) bool { return a.Kind == NoSpaceAlarm && next.Version == o.Version })
	if len(blocking) > 0 {
		return fmt.Sprintf("etcd has the alarm %s of member %s. Remove its cause, then run etcdctl alarm disarm", blocking[0].Kind, blocking[0].Owner())
	}
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
		case listed.Applied+maxLag < newest:
			problem = "is catching up"
		default:
			continue
		}
		return fmt.Sprintf("Member %s %s", m.Name, problem)
	}
	return ""
}
