package membership

import (
	"cmp"
	"fmt"
	"slices"
)

// Due is what etcd in a pod is to be started again for: it loads CAs only when it starts.
type Due struct {
	// Revision is that of the publication that the pod has mounted, 0 when no start is due.
	Revision int64
	// Loaded is the revision of the publication that etcd was started under, 0 when that is not known.
	Loaded int64
	// IsUrgent is true when what etcd holds from its start expires soon or has expired.
	IsUrgent bool
}

// startAgain starts etcd again in one pod after the other. The number of members does not change until a start that was
// begun is complete. One that cannot be begun yet waits for such a change: a learner is healthy only once it is a voter.
func (o Observed) startAgain() (Decision, bool) {
	due := o.dueNow()
	if i := slices.IndexFunc(due, o.isBeingStarted); i >= 0 {
		return poll(Restarting, "Member %s is being started again to load changed CAs.%s See the log of its pod if that lasts.", due[i].Name, causes(o.Silence)), true
	}
	if i := slices.IndexFunc(o.Members, o.mayBeStarted); i >= 0 && !o.isUrgent() {
		return poll(Restarting, "Member %s was asked to start again to load changed CAs, and its agent does not tell whether it has. "+
			"The next member is started again once it does. See the log of its pod if that lasts.", o.Members[i].Name), true
	}
	slices.SortStableFunc(due, func(a, b Member) int { return cmp.Compare(o.rank(a), o.rank(b)) })
	if i := slices.IndexFunc(due, func(m Member) bool { return o.hindrance(m) == "" }); i >= 0 {
		return o.load(due[i]), true
	}
	if len(due) == 0 || o.List == nil {
		return Decision{}, false
	}
	for _, step := range []func(Observed) (Decision, bool){Observed.shrink, Observed.join, Observed.grow} {
		if d, found := step(o); found {
			return d, true
		}
	}
	d := rest(Restarting, "%s", o.hindrance(due[0]))
	d.Again = len(o.unready()) == 0
	return d, true
}

// due are the members in whose pods etcd is to be started again. Where no process runs, the next one loads what is mounted. A
// member that is leaving may have been removed, and not start any more: while etcd does not answer, no other waits for it.
func (o Observed) due() []Member {
	due := slices.DeleteFunc(slices.Clone(o.Members), func(m Member) bool {
		pod := o.Pods[m.Name]
		isRunning := pod.UID == m.PodUID && pod.MayRun && !pod.IsEnding && !pod.HasEnded && !pod.IsDown
		return pod.Due.Revision == 0 || !isRunning || o.hasLostData(m) || slices.Contains(o.Blocked, m.Name)
	})
	if o.List == nil && slices.ContainsFunc(due, func(m Member) bool { return !m.IsLeaving && o.Pods[m.Name].Due.IsUrgent }) {
		due = slices.DeleteFunc(due, func(m Member) bool { return m.IsLeaving })
	}
	return due
}

// dueNow are the members of those that are due that are waited for, or started next: one that should have been started by now keeps no
// other from loading CAs before what it holds expires.
func (o Observed) dueNow() []Member {
	due := o.due()
	isOverdue := func(m Member) bool { return o.Pods[m.Name].IsOverdue }
	if slices.ContainsFunc(due, func(m Member) bool { return !isOverdue(m) && o.Pods[m.Name].Due.IsUrgent }) {
		due = slices.DeleteFunc(due, isOverdue)
	}
	return due
}

// isUrgent reports whether any member is to be started again before what it holds expires.
func (o Observed) isUrgent() bool {
	return slices.ContainsFunc(o.due(), func(m Member) bool { return o.Pods[m.Name].Due.IsUrgent })
}

// isBeingStarted reports whether a member to be started again has been asked to. One that was asked for an earlier publication
// may be started at any time, under the mounted one.
func (o Observed) isBeingStarted(m Member) bool {
	pod := o.Pods[m.Name]
	return pod.AskedRevision >= pod.Due.Revision || pod.Due.Loaded > 0 && pod.AskedRevision > pod.Due.Loaded
}

// mayBeStarted reports whether a member that serves was asked to start again, and may do so at any time.
func (o Observed) mayBeStarted(m Member) bool {
	pod := o.Pods[m.Name]
	return pod.UID == m.PodUID && pod.AskedRevision > 0 && pod.IsSilent && o.serves(m)
}

// rank is the order in which members are started again: those that do not serve, of which nothing is missed, and one that was begun
// with; then the urgent ones, and each time followers before the leader.
func (o Observed) rank(m Member) int {
	listed, _ := o.listed(m)
	rank := 1
	if !o.serves(m) || o.isRestarting(m) {
		return 0
	}
	if listed.IsLeader {
		rank++
	}
	if !o.Pods[m.Name].Due.IsUrgent {
		rank += 2
	}
	return rank
}

// serves reports whether a member itself answers, and its pod is ready.
func (o Observed) serves(m Member) bool {
	listed, _ := o.listed(m)
	return o.isUp(m) && listed.Answers
}

// hindrance is why a member cannot be started again yet, nothing when it can. Without an answer of etcd there is no quorum
// to be lost. Of two voters each takes the quorum away: if the number of members is to change, that comes first.
func (o Observed) hindrance(m Member) string {
	isUrgent := o.Pods[m.Name].Due.IsUrgent
	others := o.others(m)
	problem := o.unhealthy(m)
	switch {
	case isUrgent && o.List == nil, (isUrgent || !o.serves(m)) && o.List != nil && o.isSpare(m):
		return ""
	case isUrgent:
		return fmt.Sprintf("Member %s holds CAs that expire soon or have expired. It is not started again to load changed CAs, because without it there is no quorum: "+
			"only %d of %d other members answer. See the pods of the members.", m.Name, count(others), len(others))
	case o.List != nil && len(o.voters()) == 2 && len(o.List) != o.Size:
		problem = "The number of members is changing"
	case problem == "":
		return ""
	}
	return problem + ". The next member is started again to load changed CAs when all are healthy."
}

// others are the voters beside a member.
func (o Observed) others(m Member) []Listed {
	return slices.DeleteFunc(o.voters(), func(l Listed) bool { return l.Name == m.Name })
}

// isSpare reports whether the other voters that answer are a quorum without a member. Those of one or two voters never are:
// there all others must answer.
func (o Observed) isSpare(m Member) bool {
	others := o.others(m)
	return count(others) >= min(quorum(len(o.voters())), len(others))
}

// load starts a member again. If it is the leader, another one becomes that first.
func (o Observed) load(m Member) Decision {
	listed, _ := o.listed(m)
	answering := slices.DeleteFunc(o.others(m), func(l Listed) bool { return !l.Answers })
	if listed.IsLeader && len(answering) > 0 {
		return move(listed, answering)
	}
	pod := o.Pods[m.Name]
	return o.recordFirst(m, SetRestarting{m.Name, m.Version, o.Now},
		act(Restart{m.Name, pod.UID, pod.Due.Revision}, Restarting, "Member %s is being started again to load changed CAs.", m.Name))
}
