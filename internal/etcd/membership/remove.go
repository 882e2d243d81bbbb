package membership

import (
	"cmp"
	"slices"
	"strings"
)

// removed takes away what is left of a member that etcd does not have any more: its pod, then its data, which no
// member can ever use, then its record. Nothing of it is deleted before the operator has decided to remove it and etcd
// has done so: what one member answers about another is no reason to delete data.
func (o Observed) removed() (Decision, bool) {
	if o.List == nil || !o.isAgreed() {
		return Decision{}, false
	}
	for _, member := range o.Members {
		_, isListed := o.listed(member)
		_, isNamed := o.named(member.Name)
		next := o.rid(member.Name)
		_, isBare := next.(Forget)
		if !isListed && !isNamed && (member.IsLeaving || isBare) {
			return act(next, RemovingMember, "Member %s is removed from etcd. Its pod and its data are being deleted.", member.Name), true
		}
	}
	return Decision{}, false
}

// rid is the next act that takes away what is left of a member.
func (o Observed) rid(name string) Act {
	pod, hasPod := o.Pods[name]
	claim, hasClaim := o.Claims[name]
	switch {
	case hasPod && !pod.IsEnding:
		return DeletePod{name, pod.UID}
	case hasPod:
		return Rest{}
	case hasClaim && !claim.IsEnding:
		return DeleteClaim{name, claim.UID}
	case hasClaim:
		return Rest{}
	default:
		return Forget{name}
	}
}

// isAgreed reports whether a quorum of the voters on record has answered what etcd has. Fewer may be a cluster of their
// own: one that was started again without its data. A voter that is leaving counts until etcd does not have it.
func (o Observed) isAgreed() bool {
	voters, heard := 0, 0
	for _, m := range o.Members {
		if _, isListed := o.listed(m); !m.IsVoter || m.IsLeaving && !isListed {
			continue
		}
		voters++
		if slices.Contains(o.Heard, m.Name) {
			heard++
		}
	}
	return heard >= quorum(voters) || voters == 0
}

// disputed looks for a member that etcd has otherwise than it is recorded, and that the operator has not removed.
func (o Observed) disputed() (Decision, bool) {
	if o.List == nil {
		return Decision{}, false
	}
	for _, member := range o.Members {
		listed, isListed := o.listed(member)
		other, isNamed := o.named(member.Name)
		switch {
		case isListed && listed.IsLearner && member.IsVoter:
			return rest(MembersDisagree, "Member %s is a voter, and etcd has it as a learner. Members are neither added nor removed, and nothing is deleted. Compare what etcdctl member list prints for each member.", member.Name), true
		case isListed:
		case !o.isAgreed():
			return rest(MembersDisagree, "Only members %s answer, which are no quorum, and they do not have member %s. Members are neither added nor removed, and nothing is deleted. "+
				"See the pods of the members that do not answer. Compare what etcdctl member list prints for each member.", strings.Join(o.Heard, ", "), member.Name), true
		case isNamed:
			return rest(MemberIDChanged, "Member %s was %s and is %s in etcd, as after its data was restored. Members are neither added nor removed, and nothing is deleted. "+
				"Create another EtcdCluster with spec.restore. To have the member replaced instead, keep its volume and follow docs/etcd.md, \"A member that etcd does not have\".", member.Name, member.ID, other.ID), true
		default:
			return rest(MemberRemoved, "etcd does not have member %s, which the operator has not removed. Members are neither added nor removed, and nothing is deleted. "+
				"To have it added again without its data, keep its volume and follow docs/etcd.md, \"A member that etcd does not have\".", member.Name), true
		}
	}
	return Decision{}, false
}

// spared takes back what was decided of a member that is not removed after all.
func (o Observed) spared() (Decision, bool) {
	i := slices.IndexFunc(o.Members, func(m Member) bool { return m.IsLeaving })
	if i < 0 {
		return Decision{}, false
	}
	return Decision{Act: SetLeaving{o.Members[i].Name, false}}, true
}

// lost removes a member that cannot come back, so that it is added again with an empty volume.
func (o Observed) lost() (Decision, bool) {
	var dead []string
	voters, alive := 0, 0
	for _, member := range o.Members {
		if o.hasLostData(member) {
			dead = append(dead, member.Name)
		}
		if !o.votes(member) {
			continue
		}
		voters++
		if !o.hasLostData(member) {
			alive++
		}
	}
	switch {
	case len(dead) == 0, o.List == nil && o.isUrgent(): // etcd may answer once it has loaded CAs that have not expired
		return Decision{}, false
	case alive < quorum(voters):
		return rest(QuorumLost, "These members have lost their data, and the others are no quorum: %s. etcd accepts no writes, is not started on an empty volume, and nothing is deleted. "+
			"Create another EtcdCluster with spec.restore from a backup, or from the volume of a member that is left.", strings.Join(dead, ", ")), true
	case o.List == nil:
		d := rest(MemberDataLost, "Member %s has lost its data, and etcd does not answer. The member is replaced when the others are a quorum. See their pods.", dead[0])
		d.Again = slices.ContainsFunc(o.Members, o.isUp)
		return d, true
	}
	listed, _ := o.listed(o.Members[o.index(dead[0])])
	return o.remove(listed, ReplacingMember, "it has lost its data"), true
}

// votes reports whether a member is a voter, as the status has it, or may be one because it has joined and etcd does not
// answer.
func (o Observed) votes(member Member) bool {
	return member.IsVoter || member.ID == "" && o.List == nil && o.hasJoined(member)
}

// shrink removes one member of too many: one that serves least, and of those that serve the last.
func (o Observed) shrink() (Decision, bool) {
	if len(o.List) <= o.Size {
		return Decision{}, false
	}
	victim := slices.MaxFunc(o.List, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(uselessness(a), uselessness(b)), cmp.Compare(slices.Index(o.Names, a.Name), slices.Index(o.Names, b.Name)))
	})
	return o.remove(victim, RemovingMember, "the cluster has more members than spec.size"), true
}

func uselessness(l Listed) int {
	switch {
	case l.IsLearner:
		return 2
	case !l.Answers:
		return 1
	default:
		return 0
	}
}

// remove removes a member from etcd when the others are a quorum without it. If it serves, all others must.
func (o Observed) remove(member Listed, reason Reason, why string) Decision {
	if member.IsLearner {
		return o.begin(member, reason, why)
	}
	others := slices.DeleteFunc(o.voters(), func(l Listed) bool { return l.ID == member.ID })
	answering := count(others)
	needed := quorum(len(others))
	if member.Answers {
		needed = len(others)
	}
	switch {
	case len(others) == 0 || answering < needed:
		d := rest(QuorumAtRisk, "Member %s is to be removed: %s. Only %d of %d other members answer, and nothing is removed. See the pods of the members.", member.Name, why, answering, len(others))
		d.Again = len(o.unready()) == 0
		return d
	case member.IsLeader:
		return move(member, others)
	default:
		return o.begin(member, reason, why)
	}
}

// begin records that a member is removed, and in the next step removes it.
func (o Observed) begin(member Listed, reason Reason, why string) Decision {
	var next Act = Remove{member.Name, member.ID}
	if i := o.index(member.Name); i >= 0 && !o.Members[i].IsLeaving {
		next = SetLeaving{member.Name, true}
	}
	return act(next, reason, "Member %s is being removed: %s.", member.Name, why)
}

// move makes the most advanced of other voters the leader.
func move(leader Listed, others []Listed) Decision {
	next := slices.MaxFunc(others, func(a, b Listed) int { return cmp.Compare(a.Applied, b.Applied) })
	return act(MoveLeader{leader.Name, next.Name, next.ID}, WaitingForMembers, "The leader is being moved from member %s to %s.", leader.Name, next.Name)
}

func count(members []Listed) int {
	answering := 0
	for _, member := range members {
		if member.Answers {
			answering++
		}
	}
	return answering
}
