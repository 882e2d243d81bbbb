package membership

import (
	"fmt"
	"slices"
	"strings"
)

// Decide says what to do next. At most one act takes a member away from the others, and only while the others are a
// quorum without it.
func Decide(o Observed) Decision {
	kept, isRefused := o.keptVersion()
	if !isRefused {
		return o.next()
	}
	wanted := o.Version
	o.Version = kept
	d := o.next()
	if _, rests := d.Act.(Rest); rests && d.Obstacle == nil && !o.Paused {
		d.Obstacle = &Obstacle{DowngradeRefused, fmt.Sprintf("All members run etcd %s, and etcd %s does not start with their data. Members keep their version. "+
			"Set spec.version to %s. To go back, restore a backup that was made before the upgrade into another EtcdCluster.", kept, wanted, kept)}
	}
	return d
}

func (o Observed) next() Decision {
	if d, found := o.unrecorded(); found {
		return d
	}
	switch {
	case o.Paused:
		return o.whilePaused()
	case len(o.Members) == 0 && o.Asked:
		return o.first()
	case !o.Asked && o.isSettled():
		return Decision{Act: Rest{}}
	case !o.Asked:
		return Decision{Act: Ask{}, Obstacle: o.unanswered()}
	}
	for _, step := range []func(Observed) (Decision, bool){
		Observed.ended, Observed.removed, Observed.missing, Observed.returning, Observed.unknown, Observed.disputed,
		Observed.lost, Observed.stuck, Observed.readdressed, Observed.startAgain, Observed.silent, Observed.shrink, Observed.join, Observed.grow, Observed.roll, Observed.spared,
	} {
		if d, found := step(o); found {
			return o.withCauses(d)
		}
	}
	return o.withCauses(o.resting())
}

// unrecorded looks for a pod that has the name of a member and was not recorded. One that the operator created just
// before it crashed never got a certificate: it is made again, so that no other can pass for it.
func (o Observed) unrecorded() (Decision, bool) {
	for _, name := range o.Names {
		pod, exists := o.Pods[name]
		if !exists || pod.UID == o.recorded(name) || pod.IsEnding {
			continue
		}
		if pod.Unlike != "" {
			return unlike("Pod "+name, pod.Unlike), true
		}
		if d, found := o.left(name, pod); found {
			return d, true
		}
		if pod.IsOwned && (!pod.MayRun || o.WithoutIdentity) && !o.Paused {
			return Decision{Act: DeletePod{Name: name, UID: pod.UID}}, true
		}
		return rest(UnknownMemberPod, "Pod %s was not created by the operator. It gets no certificate, and members are neither added nor replaced. %s", name, pod.goesBy()), true
	}
	return Decision{}, false
}

// goesBy is what to do about a pod that is none of a member's.
func (p Pod) goesBy() string {
	if p.IsEphemeral {
		return "Find out who created it, and take a snapshot of etcd in it if it has data that you need. Delete it then."
	}
	return "Delete it."
}

// left takes over a pod of a member that etcd has. Before etcd has named the member, its pod is not recorded: it would pass for
// one that has no data.
func (o Observed) left(name string, pod Pod) (Decision, bool) {
	listed, isListed := o.named(name)
	switch {
	case !pod.IsLeft:
		return Decision{}, false
	case !o.Asked:
		return Decision{Act: Ask{}, Obstacle: o.unanswered()}, true
	case o.List == nil || !o.isHeard():
		return poll(EtcdNotAnswering, "Pod %s is a member's that is not recorded: the status was lost, or an EtcdCluster of this name was deleted without its pods. "+
			"It is taken over when etcd answers, and until then no member is added or replaced. See the log of the pod if that lasts.%s", name, pod.isBack()), true
	case !isListed || !listed.HasStarted:
		return Decision{}, false
	default:
		member := Member{Name: name, PodUID: pod.UID, ID: listed.ID, IsVoter: !listed.IsLearner, Version: pod.Version}
		return act(Adopt{member}, WaitingForMembers, "Pod %s is a member's that is not recorded, and is being taken over.", name), true
	}
}

// isHeard reports whether a quorum of the voters that are recorded or whose pods are left has answered what etcd has: what
// one of them says about the others is not enough to record or delete a pod.
func (o Observed) isHeard() bool {
	voters := 0
	for _, name := range o.Names {
		i, pod := o.index(name), o.Pods[name]
		if i >= 0 && o.Members[i].IsVoter || pod.IsLeft && pod.IsVoter {
			voters++
		}
	}
	return len(o.Heard) >= quorum(voters)
}

// isBack is how the pod of a member that is not recorded is done without.
func (p Pod) isBack() string {
	if p.IsEphemeral {
		return ""
	}
	return " If etcd has no quorum, delete the pod: it is created again with its claim, and so are those of the other members."
}

// whilePaused names what does not pass when the cluster is no longer paused.
func (o Observed) whilePaused() Decision {
	for _, member := range o.Members {
		if o.Pods[member.Name].IsEmptied {
			return rest(MemberDataLost, "Member %s has joined, and its volume is empty. etcd is not started, and the member is not replaced while the cluster is paused. "+
				"Find out what has emptied the volume, then set spec.paused to false.", member.Name)
		}
	}
	return Decision{Act: Rest{}}
}

// isSettled reports whether all members are as they shall be, as far as that shows without etcd.
func (o Observed) isSettled() bool {
	return o.WasReady && !o.isDoubted() && len(o.Members) == o.Size && len(o.due()) == 0 && !slices.ContainsFunc(o.Members, func(m Member) bool {
		return m.ID == "" || !m.IsVoter || m.IsLeaving || o.isOutdated(m) || !o.isUp(m)
	})
}

// isUp reports whether the pod of a member serves.
func (o Observed) isUp(m Member) bool {
	pod, exists := o.Pods[m.Name]
	return exists && pod.IsReady && !pod.IsEnding
}

// ended deletes a pod that will not run again, so that another one is created in its place. One with the data of its
// member goes only while the others are a quorum, which can replace it.
func (o Observed) ended() (Decision, bool) {
	for _, member := range o.Members {
		if pod := o.Pods[member.Name]; pod.HasEnded && !pod.IsEnding && (!o.Ephemeral || o.List != nil) && !slices.Contains(o.Blocked, member.Name) {
			return act(DeletePod{member.Name, pod.UID}, WaitingForPods, "Pod %s has ended and is created again.", member.Name), true
		}
	}
	return Decision{}, false
}

// missing creates the pod of a member that has none, with the data that the member had.
func (o Observed) missing() (Decision, bool) {
	for _, member := range o.Members {
		hasJoined, isAlone := o.hasJoined(member), len(o.Members) == 1
		canOnlyJoin := !hasJoined && !isAlone
		if !o.lacksPod(member) || canOnlyJoin && o.List == nil {
			continue
		}
		pod := CreatePod{Name: member.Name, IsFirst: !hasJoined && isAlone, HasJoined: hasJoined, Members: []string{member.Name}, Version: member.Version}
		if !hasJoined {
			pod.Members = o.listedWith(member.Name)
		}
		return o.create(pod), true
	}
	return Decision{}, false
}

// lacksPod reports whether a member shall have a pod and has none.
func (o Observed) lacksPod(member Member) bool {
	_, exists := o.Pods[member.Name]
	_, isListed := o.listed(member)
	isRemoved := member.IsLeaving && o.List != nil && !isListed
	return !exists && !isRemoved && !o.hasLostData(member) && !slices.Contains(o.Blocked, member.Name)
}

func (o Observed) create(pod CreatePod) Decision {
	return act(pod, WaitingForPods, "Pod %s is being created.", pod.Name)
}

// listedWith are the members as etcd has them, and one more.
func (o Observed) listedWith(name string) []string {
	names := []string{name}
	for _, listed := range o.List {
		if listed.Name != name {
			names = append(names, listed.Name)
		}
	}
	slices.Sort(names)
	return names
}

// unknown looks for a member that the operator did not add.
func (o Observed) unknown() (Decision, bool) {
	i := slices.IndexFunc(o.List, func(l Listed) bool { return l.Name == "" })
	if i < 0 {
		return Decision{}, false
	}
	return rest(UnknownMember, "etcd has member %s, which the operator did not add. Members are neither added nor removed. Remove it with etcdctl member remove %s.", o.List[i].ID, o.List[i].ID), true
}

// readdressed looks for a member at whose own address the others do not look for it.
func (o Observed) readdressed() (Decision, bool) {
	i := slices.IndexFunc(o.List, func(l Listed) bool { return l.OwnURL != "" })
	if i < 0 {
		return Decision{}, false
	}
	return rest(PeerURLChanged, "etcd has another peer URL of member %[1]s than the operator gave it, and its certificate is not for that. Members are neither added nor restarted. "+
		"Run etcdctl member update %[2]s --peer-urls=%[3]s.", o.List[i].Name, o.List[i].ID, o.List[i].OwnURL), true
}

// silent waits for etcd, which changes nothing while it does not answer.
func (o Observed) silent() (Decision, bool) {
	switch {
	case o.List != nil:
		return Decision{}, false
	case slices.ContainsFunc(o.Members, o.isUp):
		return Decision{Act: Rest{}, Obstacle: o.unanswered(), Again: true}, true
	case o.isStarting():
		return poll(WaitingForPods, "Pod %s is starting. See its events and logs if that lasts.", o.Members[0].Name), true
	default: // a pod tells when that changes
		return o.resting(), true
	}
}

// isStarting reports whether etcd may have begun to run in the first member of a new cluster. Only etcd tells: the pod
// is ready after it was recorded that the member has joined.
func (o Observed) isStarting() bool {
	return len(o.Members) == 1 && o.Members[0].ID == "" && o.Pods[o.Members[0].Name].MayRun
}

func (o Observed) unanswered() *Obstacle {
	return rest(EtcdNotAnswering, "etcd does not answer the operator, which asks again.%s See the logs of the members if that lasts.", causes(o.Silence)).Obstacle
}

func (o Observed) resting() Decision {
	if unready := o.unready(); len(unready) > 0 {
		return rest(WaitingForPods, "Pods %s are not ready. See their events and logs if that lasts.", strings.Join(unready, ", "))
	}
	return Decision{Act: Rest{}}
}

// withCauses adds to what is waited for why members do not start, and that they cannot find each other.
func (o Observed) withCauses(d Decision) Decision {
	if d.Obstacle == nil {
		return d
	}
	d.Obstacle.Message += causes(o.Unpulled)
	if len(o.Unresolved) > 0 {
		d.Obstacle.Message += " Members find each other by DNS names." + causes(o.Unresolved) + " See the DNS of the Kubernetes cluster."
	}
	return d
}

// causes is a sentence for each member.
func causes(silent []Silent) string {
	var text strings.Builder
	for _, member := range silent {
		fmt.Fprintf(&text, " Member %s: %s.", member.Name, member.Cause)
	}
	return text.String()
}

func (o Observed) unready() []string {
	var names []string
	for _, member := range o.Members {
		if !o.isUp(member) {
			names = append(names, member.Name)
		}
	}
	return names
}

// join takes a member that was added to etcd on its way to be a voter.
func (o Observed) join() (Decision, bool) {
	i := slices.IndexFunc(o.List, func(l Listed) bool { return l.IsLearner || !l.HasStarted })
	if i < 0 {
		return Decision{}, false
	}
	listed := o.List[i]
	waiting := fmt.Sprintf("Member %s has joined and is catching up.", listed.Name)
	switch {
	case o.index(listed.Name) < 0:
		return o.create(CreatePod{Name: listed.Name, Members: o.listedWith(listed.Name), Version: o.Version}), true
	case !listed.HasStarted && o.isMisled(listed.Name):
		return act(SetMembers{listed.Name, o.listedWith(listed.Name)}, WaitingForLearners, "%s", waiting), true
	case listed.HasStarted:
		return act(Promote{Name: listed.Name, ID: listed.ID}, WaitingForLearners, "%s", waiting), true
	case o.Pods[listed.Name].MayRun:
		return poll(WaitingForLearners, "%s", waiting), true
	default: // its pod tells when that changes
		return rest(WaitingForPods, "Pod %s has not started. See its events if that lasts.", listed.Name), true
	}
}

// isMisled reports whether the pod of a member that joins would look for other members than there are, and not start.
func (o Observed) isMisled(name string) bool {
	pod, exists := o.Pods[name]
	return exists && !pod.HasJoined && !slices.Equal(pod.Members, o.listedWith(name))
}

// grow adds one more member once all others serve: a learner that cannot be reached takes nothing from the quorum, and
// a voter that it becomes must not be the one that is missed.
func (o Observed) grow() (Decision, bool) {
	if len(o.List) >= o.Size {
		return Decision{}, false
	}
	if unready := o.unready(); len(unready) > 0 {
		return rest(WaitingForPods, "Pods %s are not ready. The next member is added when they are.", strings.Join(unready, ", ")), true
	}
	next := slices.IndexFunc(o.Names, func(name string) bool {
		return !slices.ContainsFunc(o.List, func(l Listed) bool { return l.Name == name })
	})
	return act(AddLearner{o.Names[next]}, WaitingForMembers, "The cluster has %d of %d members.", len(o.List), o.Size), true
}
