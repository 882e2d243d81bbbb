package membership_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

const first, second, third, fourth = "my-cluster-0", "my-cluster-1", "my-cluster-2", "my-cluster-3"

func ready(uid string) membership.Pod {
	return membership.Pod{UID: uid, IsOwned: true, MayRun: true, IsReady: true, Version: "3.5.35"}
}

// three is a cluster of three members at rest.
func three() membership.Observed {
	o := membership.Observed{
		Size: 3, Version: "3.5.35", Now: today, Names: memberNames, WasReady: true, Pods: map[string]membership.Pod{}, Claims: map[string]membership.Claim{},
	}
	for i, name := range memberNames[:3] {
		uid := fmt.Sprint("uid", i)
		o.Members = append(o.Members, membership.Member{Name: name, PodUID: uid, ID: "id of " + name, IsVoter: true, Version: "3.5.35"})
		o.Pods[name], o.Claims[name] = ready(uid), membership.Claim{UID: "claim of " + name}
	}
	return o
}

// asked is a cluster whose etcd has answered.
func asked(o membership.Observed, list ...membership.Listed) membership.Observed {
	o.Asked, o.List, o.Heard = true, list, nil
	for _, listed := range list {
		if listed.Answers {
			o.Heard = append(o.Heard, listed.Name)
		}
	}
	return o
}

// one is a cluster of one member that is going to be three.
func one() membership.Observed {
	o := three()
	o.Members = o.Members[:1]
	delete(o.Pods, second)
	delete(o.Pods, third)
	return o
}

func voter(name string) membership.Listed {
	return membership.Listed{ID: "id of " + name, Name: name, HasStarted: true, Answers: true, IsLeader: name == first}
}

// silent is a voter that does not answer.
func silent(name string) membership.Listed {
	return membership.Listed{ID: "id of " + name, Name: name, HasStarted: true}
}

func learner(name string) membership.Listed {
	return membership.Listed{ID: "id of " + name, Name: name, HasStarted: true, IsLearner: true}
}

// left is a cluster that finds the pods of an earlier one.
func left() membership.Observed {
	o := three()
	o.Members, o.WasReady = nil, false
	for name, pod := range o.Pods {
		pod.IsOwned, pod.IsLeft, pod.IsVoter = false, true, name == first
		o.Pods[name] = pod
	}
	return o
}

func asVoter(pod *membership.Pod) { pod.IsVoter = true }

func paused(o membership.Observed) membership.Observed {
	o.Paused = true
	return o
}

// newer is a cluster that shall run another version than it does.
func newer(o membership.Observed) membership.Observed {
	o.Version = "3.6.16"
	return o
}

func without(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		delete(o.Pods, name)
		delete(o.Claims, name)
	}
	return o
}

func TestTheNextAct(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		observed membership.Observed
		act      membership.Act
		reason   membership.Reason
	}{
		"nothing at rest": {three(), membership.Rest{}, ""},
		"pods are left":   {left(), membership.Ask{}, membership.EtcdNotAnswering},
		"pods are left, and etcd lists their members": {asked(left(), voter(first), learner(second)), membership.Adopt{Member: membership.Member{
			Name: first, PodUID: "uid0", ID: "id of " + first, IsVoter: true, Version: "3.5.35",
		}}, membership.WaitingForMembers},
		"pods are left while the cluster is paused": {paused(asked(left(), voter(first))), membership.Adopt{Member: membership.Member{
			Name: first, PodUID: "uid0", ID: "id of " + first, IsVoter: true, Version: "3.5.35",
		}}, membership.WaitingForMembers},
		"pods are left, and etcd does not answer":                     {asked(left()), membership.Rest{}, membership.EtcdNotAnswering},
		"a pod is left, and a member says that etcd does not have it": {asked(left(), voter(second), voter(third)), membership.Rest{}, membership.UnknownMemberPod},
		"two of three pods are left that do not answer": {
			changedPod(changedPod(asked(left(), voter(third)), second, asVoter), third, asVoter), membership.Rest{}, membership.EtcdNotAnswering,
		},
		"a pod is left that has not started as learner": {
			changedPod(asked(left(), membership.Listed{ID: "id", Name: first, IsLearner: true}, voter(second)), first, func(pod *membership.Pod) { pod.IsVoter = false }),
			membership.Rest{},
			membership.UnknownMemberPod,
		},
		"etcd is asked until the cluster was ready": {
			changed(three(), func(o *membership.Observed) { o.WasReady = false }), membership.Ask{}, membership.EtcdNotAnswering,
		},
		"a learner that was added for another size is removed": {
			asked(sized(one(), 1), voter(first), membership.Listed{ID: "b", Name: second, IsLearner: true}),
			membership.Remove{Name: second, ID: "b"},
			membership.RemovingMember,
		},
		"claims are read before a cluster is begun": {
			membership.Observed{Size: 3, Version: "3.5.35", Names: memberNames}, membership.Ask{}, membership.EtcdNotAnswering,
		},
		"a cluster that has claims and no first one is not begun anew": {
			asked(changed(without(three(), first), func(o *membership.Observed) { o.Members = nil; clear(o.Pods) })),
			membership.CreatePod{Name: second, HasJoined: true, Members: []string{second}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a voter that is not recorded is created again with its data": {
			asked(changed(three(), func(o *membership.Observed) { o.Members = o.Members[:2]; delete(o.Pods, third) }), voter(first), voter(second), silent(third)),
			membership.CreatePod{Name: third, HasJoined: true, Members: []string{third}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a voter that is neither recorded nor has data is removed": {
			asked(changed(without(three(), third), func(o *membership.Observed) { o.Members = o.Members[:2] }), voter(first), voter(second), silent(third)),
			membership.Remove{Name: third, ID: "id of " + third},
			membership.ReplacingMember,
		},
		"a new cluster is one member": {
			membership.Observed{Size: 3, Version: "3.5.35", Names: memberNames, Asked: true},
			membership.CreatePod{Name: first, IsFirst: true, Members: []string{first}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a paused cluster is not begun": {membership.Observed{Size: 3, Paused: true, Names: memberNames}, membership.Rest{}, ""},
		"the first member is waited for": {
			asked(changed(one(), func(o *membership.Observed) { o.Pods[first] = waiting("uid0") })),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"etcd is asked before a member is added": {one(), membership.Ask{}, membership.EtcdNotAnswering},
		"the next member is added as a learner": {
			asked(one(), voter(first)), membership.AddLearner{Name: second}, membership.WaitingForMembers,
		},
		"no member is added beside one that is not ready": {
			asked(changed(three(), func(o *membership.Observed) { o.Size, o.Pods[second] = 4, crashed("uid1") }), voter(first), silent(second), voter(third)),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"an added member without a pod gets one": {
			asked(one(), voter(first), membership.Listed{ID: "b", Name: second, IsLearner: true}),
			membership.CreatePod{Name: second, Members: []string{first, second}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a learner that has not started is waited for": {
			changed(joined(), func(o *membership.Observed) { o.List[1].HasStarted = false }), membership.Rest{}, membership.WaitingForLearners,
		},
		"a learner whose pod has no certificate is not asked for": {
			changed(joined(), func(o *membership.Observed) {
				pod := waiting("uid1")
				pod.Members = []string{first, second}
				o.List[1].HasStarted, o.Pods[second] = false, pod
			}),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a learner that has started is promoted": {
			joined(), membership.Promote{Name: second, ID: "id of " + second}, membership.WaitingForLearners,
		},
		"a pod that was created and not recorded is made again": {
			changed(one(), func(o *membership.Observed) { o.Pods[second] = waiting("lost") }),
			membership.DeletePod{Name: second, UID: "lost"},
			"",
		},
		"a pod that replaces a recorded one is made again": {
			changed(three(), func(o *membership.Observed) { o.Pods[second] = waiting("lost") }),
			membership.DeletePod{Name: second, UID: "lost"},
			"",
		},
		"a foreign pod stays": {
			changed(one(), func(o *membership.Observed) { o.Pods[second] = membership.Pod{UID: "foreign"} }),
			membership.Rest{},
			membership.UnknownMemberPod,
		},
		"a pod that claims to be ours and runs stays": {
			changed(one(), func(o *membership.Observed) { o.Pods[second] = ready("foreign") }),
			membership.Rest{},
			membership.UnknownMemberPod,
		},
		"a paused cluster keeps a pod that was not recorded": {
			changed(three(), func(o *membership.Observed) { o.Paused, o.Pods[second] = true, waiting("lost") }),
			membership.Rest{},
			membership.UnknownMemberPod,
		},
		"a lost pod with its data is created again": {
			asked(changed(three(), func(o *membership.Observed) { delete(o.Pods, second) }), voter(first), silent(second), voter(third)),
			membership.CreatePod{Name: second, HasJoined: true, Members: []string{second}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a lost pod is created again also while etcd does not answer": {
			asked(changed(three(), func(o *membership.Observed) { clear(o.Pods) })),
			membership.CreatePod{Name: first, HasJoined: true, Members: []string{first}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"the only member is never created with an empty volume": {
			asked(changed(one(), func(o *membership.Observed) { o.Size = 1; delete(o.Pods, first) })),
			membership.CreatePod{Name: first, HasJoined: true, Members: []string{first}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a pod is created again as it was while the version changes": {
			asked(newer(changed(three(), func(o *membership.Observed) { delete(o.Pods, second) })), voter(first), silent(second), voter(third)),
			membership.CreatePod{Name: second, HasJoined: true, Members: []string{second}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a pod that has ended is deleted": {
			asked(changed(three(), func(o *membership.Observed) {
				o.Pods[second] = membership.Pod{UID: "uid1", IsOwned: true, HasEnded: true}
			}), voter(first), silent(second), voter(third)),
			membership.DeletePod{Name: second, UID: "uid1"},
			membership.WaitingForPods,
		},
		"an ephemeral pod that has ended is deleted while the others are a quorum": {
			asked(ended(ephemeral(three()), second), voter(first), silent(second), voter(third)),
			membership.DeletePod{Name: second, UID: "uid1"},
			membership.WaitingForPods,
		},
		"ephemeral pods that have ended stay when the others are no quorum": {
			asked(ended(ephemeral(three()), first, second, third)), membership.Rest{}, membership.QuorumLost,
		},
		"an ephemeral pod that has ended stays while etcd does not answer": {
			asked(ended(ephemeral(three()), second)), membership.Rest{}, membership.MemberDataLost,
		},
		"of all pods that have ended one is deleted after the other": {
			asked(ended(three(), first, second, third)), membership.DeletePod{Name: first, UID: "uid0"}, membership.WaitingForPods,
		},
		"a pod that was lost before it started is created again": {
			changed(joined(), func(o *membership.Observed) { delete(o.Pods, second); o.List[1].HasStarted = false }),
			membership.CreatePod{Name: second, Members: []string{first, second}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a member that has lost its data is removed": {
			asked(without(three(), second), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.ReplacingMember,
		},
		"a member whose claim is being deleted has lost its data": {
			asked(changed(three(), func(o *membership.Observed) {
				delete(o.Pods, second)
				o.Claims[second] = membership.Claim{UID: "a", IsEnding: true}
			}), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.ReplacingMember,
		},
		"a member whose volume is gone has lost its data": {
			asked(changed(three(), func(o *membership.Observed) {
				o.Pods[second], o.Claims[second] = crashed("uid1"), membership.Claim{UID: "a", IsLost: true}
			}), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.ReplacingMember,
		},
		"a claim that is being deleted is used as long as its pod": {
			asked(changed(three(), func(o *membership.Observed) {
				o.Pods[second], o.Claims[second] = crashed("uid1"), membership.Claim{UID: "a", IsEnding: true}
			}), voter(first), silent(second), voter(third)),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a member whose pod waits for a node is not dead": {
			asked(changed(three(), func(o *membership.Observed) { o.Pods[second] = waiting("uid1") }), voter(first), silent(second), voter(third)),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a lost ephemeral pod is replaced": {
			asked(changed(three(), func(o *membership.Observed) { delete(o.Pods, second); o.Ephemeral = true }), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.ReplacingMember,
		},
		"nobody is removed when the others do not answer": {
			asked(without(three(), second), voter(first), silent(second), silent(third)),
			membership.Rest{},
			membership.QuorumAtRisk,
		},
		"nobody is removed while etcd does not answer": {asked(without(three(), second)), membership.Rest{}, membership.MemberDataLost},
		"a lost quorum deletes nothing":                {asked(without(three(), second, third)), membership.Rest{}, membership.QuorumLost},
		"the only member is not replaced": {
			asked(changed(without(one(), first), func(o *membership.Observed) { o.Size = 1 })), membership.Rest{}, membership.QuorumLost,
		},
		"a member is removed once that is recorded": {
			asked(sized(leaving(three(), third), 2), voter(first), voter(second), voter(third)),
			membership.Remove{Name: third, ID: "id of " + third},
			membership.RemovingMember,
		},
		"a member that stays after all is not removed later": {
			asked(leaving(three(), third), voter(first), voter(second), voter(third)), membership.SetLeaving{Name: third}, "",
		},
		"a member that the operator has not removed keeps what it has": {
			asked(three(), voter(second), voter(third)), membership.Rest{}, membership.MemberRemoved,
		},
		"one member says nothing about the others": {
			asked(three(), voter(third)), membership.Rest{}, membership.MembersDisagree,
		},
		"what a member that leaves has stays until a quorum says that it is removed": {
			asked(sized(leaving(three(), third), 2), voter(first)), membership.Rest{}, membership.MembersDisagree,
		},
		"what a removed member had goes although a quorum needs another one that leaves": {
			asked(changed(leaving(three(), third), func(o *membership.Observed) {
				o.Members = append(o.Members, membership.Member{Name: fourth, ID: "id of " + fourth, IsVoter: true, IsLeaving: true})
			}), voter(first), silent(second), voter(third)), membership.Forget{Name: fourth}, membership.RemovingMember,
		},
		"a member whose volume is empty is replaced": {
			asked(emptied(three(), second), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.ReplacingMember,
		},
		"a member whose volume is empty is not replaced while etcd does not answer": {
			asked(emptied(three(), second)), membership.Rest{}, membership.MemberDataLost,
		},
		"nothing is done when the only member has an empty volume": {
			asked(emptied(changed(one(), func(o *membership.Observed) { o.Size = 1 }), first)), membership.Rest{}, membership.QuorumLost,
		},
		"nothing is done when most members have empty volumes": {
			asked(emptied(emptied(three(), first), second)), membership.Rest{}, membership.QuorumLost,
		},
		"an ephemeral member whose volume is empty is replaced": {
			asked(changed(emptied(three(), second), func(o *membership.Observed) { o.Ephemeral = true; clear(o.Claims) }), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.ReplacingMember,
		},
		"the first member is asked before its pod is ready": {
			changed(one(), func(o *membership.Observed) {
				o.Members[0].ID, o.Members[0].IsVoter = "", false
				o.Pods[first] = membership.Pod{UID: "uid0", IsOwned: true, MayRun: true, Version: "3.5.35"}
			}),
			membership.Ask{},
			membership.EtcdNotAnswering,
		},
		"a member that something is in the way of keeps no other from its pod": {
			asked(changed(without(three(), second, third), func(o *membership.Observed) {
				o.Claims[third], o.Blocked = membership.Claim{UID: "claim of " + third}, []string{second}
			}), voter(first), silent(second), silent(third)),
			membership.CreatePod{Name: third, HasJoined: true, Members: []string{third}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a member is not taken for lost while its claim is not the cluster's": {
			asked(changed(without(three(), second), func(o *membership.Observed) { o.Blocked = []string{second} }), voter(first), silent(second), voter(third)),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a learner that joined other members than there are is told of them": {
			changed(joined(), func(o *membership.Observed) {
				pod := o.Pods[second]
				pod.Members = []string{first, second, third}
				o.Pods[second], o.List[1].HasStarted = pod, false
			}),
			membership.SetMembers{Name: second, Members: []string{first, second}},
			membership.WaitingForLearners,
		},
		"the pod of such a member is created again": {
			asked(changed(three(), func(o *membership.Observed) { delete(o.Pods, first) }), voter(third)),
			membership.CreatePod{Name: first, HasJoined: true, Members: []string{first}, Version: "3.5.35"},
			membership.WaitingForPods,
		},
		"a member with another id keeps what it has": {
			asked(three(), voter(first), changedListed(voter(second), func(l *membership.Listed) { l.ID = "restored" }), voter(third)),
			membership.Rest{},
			membership.MemberIDChanged,
		},
		"a member that leaves and has another id keeps what it has": {
			asked(leaving(three(), second), voter(first), changedListed(voter(second), func(l *membership.Listed) { l.ID = "restored" }), voter(third)),
			membership.Rest{},
			membership.MemberIDChanged,
		},
		"a voter that is said to be a learner is not removed": {
			asked(sized(three(), 1), learner(first), learner(second), voter(third)), membership.Rest{}, membership.MembersDisagree,
		},
		"what a removed member had goes, its pod first": {
			asked(sized(leaving(three(), third), 2), voter(first), voter(second)), membership.DeletePod{Name: third, UID: "uid2"}, membership.RemovingMember,
		},
		"then its data": {
			asked(changed(leaving(three(), third), func(o *membership.Observed) { delete(o.Pods, third) }), voter(first), voter(second)),
			membership.DeleteClaim{Name: third, UID: "claim of " + third},
			membership.RemovingMember,
		},
		"then its record": {
			asked(without(three(), third), voter(first), voter(second)), membership.Forget{Name: third}, membership.RemovingMember,
		},
		"the last member goes first": {
			asked(sized(three(), 1), voter(first), voter(second), voter(third)),
			membership.SetLeaving{Name: third, Leaving: true},
			membership.RemovingMember,
		},
		"a member that does not answer goes before it": {
			asked(sized(changed(three(), func(o *membership.Observed) { o.Pods[second] = waiting("uid1") }), 1), voter(first), silent(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.RemovingMember,
		},
		"the leader is moved before its member goes": {
			asked(sized(three(), 2), changedListed(voter(first), func(l *membership.Listed) { l.IsLeader = false }),
				changedListed(voter(second), func(l *membership.Listed) { l.Applied = 5 }),
				changedListed(voter(third), func(l *membership.Listed) { l.IsLeader = true })),
			membership.MoveLeader{From: third, To: second, ToID: "id of " + second},
			membership.WaitingForMembers,
		},
		"a member that is not ours stays": {
			asked(one(), voter(first), voter("")), membership.Rest{}, membership.UnknownMember,
		},
		"a pod that is not ready is reported": {
			asked(changed(three(), func(o *membership.Observed) { o.Pods[third] = crashed("uid2") }), voter(first), voter(second), silent(third)),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a version is recorded before a pod goes": {
			asked(newer(three()), voter(first), voter(second), voter(third)),
			membership.SetRestarting{Name: second, Version: "3.6.16", Since: today},
			membership.Upgrading,
		},
		"the pod of another version goes": {
			asked(newer(recordedAs(three(), second)), voter(first), voter(second), voter(third)),
			membership.DeletePod{Name: second, UID: "uid1"},
			membership.Upgrading,
		},
		"no pod goes beside one that is not ready": {
			asked(newer(changed(recordedAs(three(), second), func(o *membership.Observed) { o.Pods[third] = waiting("uid2") })), voter(first), voter(second), silent(third)),
			membership.SetRestarting{Name: third, Version: "3.6.16", Since: today},
			membership.Upgrading,
		},
		"no pod goes beside a member that does not answer": {
			asked(newer(three()), voter(first), silent(second), voter(third)), membership.Rest{}, membership.Upgrading,
		},
		"no pod goes while there is an alarm": {
			changed(asked(newer(three()), voter(first), voter(second), voter(third)), func(o *membership.Observed) {
				o.Alarms = []membership.Alarm{{Kind: membership.NoSpaceAlarm, ID: "9"}}
			}),
			membership.Rest{},
			membership.Upgrading,
		},
		"no pod goes while a member catches up": {
			asked(newer(three()), changedListed(voter(first), func(l *membership.Listed) { l.Received, l.Applied = 9000, 9000 }), voter(second), voter(third)),
			membership.Rest{},
			membership.Upgrading,
		},
		"the leader is moved before its pod goes": {
			asked(newer(recordedAs(upgraded(three(), second, third), first)), voter(first), voter(second), voter(third)),
			membership.MoveLeader{From: first, To: second, ToID: "id of " + second},
			membership.WaitingForMembers,
		},
		"a member that cannot start gets another version": {
			asked(newer(changed(three(), func(o *membership.Observed) { o.Pods[second] = waiting("uid1") })), voter(first), silent(second), voter(third)),
			membership.SetRestarting{Name: second, Version: "3.6.16", Since: today},
			membership.Upgrading,
		},
		"the only member gets another version": {
			asked(newer(sized(one(), 1)), voter(first)), membership.SetRestarting{Name: first, Version: "3.6.16", Since: today}, membership.Upgrading,
		},
		"the only member keeps its data when it is ephemeral": {
			asked(newer(changed(sized(one(), 1), func(o *membership.Observed) { o.Ephemeral = true })), voter(first)), membership.Rest{}, membership.Upgrading,
		},
		"an ephemeral member is replaced by one of another version": {
			asked(newer(changed(three(), func(o *membership.Observed) { o.Ephemeral = true })), voter(first), voter(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.Upgrading,
		},
		"changed CAs restart a follower first": {
			asked(stale(three(), first, second, third), voter(first), voter(second), voter(third)),
			membership.DeletePod{Name: second, UID: "uid1"},
			membership.Restarting,
		},
		"the leader is moved before it loads changed CAs": {
			asked(stale(three(), first), voter(first), voter(second), voter(third)),
			membership.MoveLeader{From: first, To: second, ToID: "id of " + second},
			membership.WaitingForMembers,
		},
		"no member loads changed CAs beside one that does not answer": {
			asked(stale(three(), second), voter(first), voter(second), silent(third)), membership.Rest{}, membership.Restarting,
		},
		"members that all run the next minor keep it": {
			asked(upgraded(three(), first, second, third), voter(first), voter(second), voter(third)), membership.Rest{}, membership.DowngradeRefused,
		},
		"members go back while one runs the previous minor": {
			asked(upgraded(three(), second, third), voter(first), voter(second), voter(third)),
			membership.SetRestarting{Name: second, Version: "3.5.35", Since: today},
			membership.Upgrading,
		},
		"members go back while one does not run the next minor": {
			asked(down(upgraded(three(), first, second, third), second), voter(first), silent(second), voter(third)),
			membership.SetRestarting{Name: second, Version: "3.5.35", Since: today},
			membership.Upgrading,
		},
		"members go back a patch": {
			asked(changed(upgraded(three(), first, second, third), func(o *membership.Observed) { o.Version = "3.6.14" }), voter(first), voter(second), voter(third)),
			membership.SetRestarting{Name: second, Version: "3.6.14", Since: today},
			membership.Upgrading,
		},
		"members that keep the next minor are repaired": {
			asked(changed(upgraded(three(), first, second, third), func(o *membership.Observed) {
				pod := o.Pods[third]
				pod.HasEnded, pod.IsReady = true, false
				o.Pods[third] = pod
			}), voter(first), voter(second), silent(third)),
			membership.DeletePod{Name: third, UID: "uid2"},
			membership.WaitingForPods,
		},
		"a changed spec restarts a follower first": {
			asked(reshaped(three(), first, second, third), voter(first), voter(second), voter(third)),
			membership.DeletePod{Name: second, UID: "uid1"},
			membership.Restarting,
		},
		"etcd is asked when a spec has changed": {reshaped(three(), second), membership.Ask{}, membership.EtcdNotAnswering},
		"a file system that awaits a mount restarts its member": {
			asked(changedPod(three(), third, func(pod *membership.Pod) { pod.AwaitsMount = true }), voter(first), voter(second), voter(third)),
			membership.DeletePod{Name: third, UID: "uid2"},
			membership.Restarting,
		},
		"a paused cluster keeps its pods": {
			changed(reshaped(three(), first, second), func(o *membership.Observed) { o.Paused = true }), membership.Rest{}, "",
		},
		"no pod goes for a spec beside a member that does not answer": {
			asked(reshaped(three(), second), voter(first), voter(second), silent(third)), membership.Rest{}, membership.Restarting,
		},
		"an ephemeral member is replaced for a changed spec": {
			asked(ephemeral(reshaped(three(), second)), voter(first), voter(second), voter(third)),
			membership.SetLeaving{Name: second, Leaving: true},
			membership.Restarting,
		},
		"the only member keeps its data when the spec changes and it is ephemeral": {
			asked(ephemeral(sized(reshaped(one(), first), 1)), voter(first)), membership.Rest{}, membership.Restarting,
		},
		"the only member keeps its data when it is ephemeral and not ready": {
			asked(ephemeral(down(sized(reshaped(one(), first), 1), first)), silent(first)), membership.Rest{}, membership.Restarting,
		},
		"ephemeral members keep their data without a quorum": {
			asked(ephemeral(down(reshaped(three(), first, second, third), first, second, third))), membership.Rest{}, membership.WaitingForPods,
		},
		"members in which nothing runs get the corrected spec": {
			asked(down(reshaped(three(), first, second, third), first, second, third)),
			membership.DeletePod{Name: first, UID: "uid0"},
			membership.Restarting,
		},
		"members in which etcd may run are waited for": {
			asked(changed(reshaped(three(), first, second, third), func(o *membership.Observed) {
				for _, name := range memberNames[:3] {
					pod := crashed(o.Pods[name].UID)
					pod.HasOldSpec = true
					o.Pods[name] = pod
				}
			})),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a pod that was not recorded and may run stays": {
			changed(three(), func(o *membership.Observed) { o.Pods[second] = ready("other") }), membership.Rest{}, membership.UnknownMemberPod,
		},
		"a pod that was not recorded goes when it has no certificates to pass for another": {
			changed(three(), func(o *membership.Observed) { o.Pods[second], o.WithoutIdentity = ready("other"), true }),
			membership.DeletePod{Name: second, UID: "other"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decides(t, test.observed, test.act, test.reason)
		})
	}
}

// decideOnce decides, and again once it is recorded that a member is restarted with the version that it has.
func decideOnce(o membership.Observed) membership.Decision {
	d := membership.Decide(o)
	record, isRecord := d.Act.(membership.SetRestarting)
	if !isRecord || slices.ContainsFunc(o.Members, func(m membership.Member) bool { return m.Name == record.Name && m.Version != record.Version }) {
		return d
	}
	o.Members = membership.WithRestarting(o.Members, record)
	return membership.Decide(o)
}

// decides fails the test unless an act and a reason follow from what is observed. It returns the message.
func decides(t *testing.T, observed membership.Observed, act membership.Act, reason membership.Reason) string {
	t.Helper()
	got := decideOnce(observed)
	if diff := cmp.Diff(act, got.Act); diff != "" {
		t.Errorf("the act differs (-want +got):\n%s", diff)
	}
	var obstacle membership.Obstacle
	if got.Obstacle != nil {
		obstacle = *got.Obstacle
	}
	if obstacle.Reason != reason {
		t.Errorf("the reason is %q, want %q", obstacle.Reason, reason)
	}
	return obstacle.Message
}

func changed(o membership.Observed, change func(o *membership.Observed)) membership.Observed {
	change(&o)
	return o
}

// waiting is a pod in which etcd cannot run yet, crashed one in which it could.
func waiting(uid string) membership.Pod {
	return membership.Pod{UID: uid, IsOwned: true, Version: "3.5.35"}
}

func crashed(uid string) membership.Pod {
	return membership.Pod{UID: uid, IsOwned: true, MayRun: true, Version: "3.5.35"}
}

func sized(o membership.Observed, size int) membership.Observed {
	o.Size = size
	return o
}

func changedListed(l membership.Listed, change func(l *membership.Listed)) membership.Listed {
	change(&l)
	return l
}

// recordedAs has the newer version recorded of members, upgraded also in their pods.
func recordedAs(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o.Members = membership.WithRestarting(o.Members, membership.SetRestarting{Name: name, Version: "3.6.16"})
	}
	return o
}

// leaving has a member that the operator is removing.
func leaving(o membership.Observed, name string) membership.Observed {
	o.Members = membership.WithLeaving(o.Members, name, true)
	return o
}

func ephemeral(o membership.Observed) membership.Observed {
	o.Ephemeral = true
	return o
}

// ended has pods whose containers have ended.
func ended(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o.Pods[name] = membership.Pod{UID: o.Pods[name].UID, IsOwned: true, HasEnded: true, Version: "3.5.35"}
	}
	return o
}

func upgraded(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		pod := o.Pods[name]
		pod.Version = "3.6.16"
		o.Pods[name] = pod
	}
	return recordedAs(o, names...)
}

// stale has members started with other CAs than those that they shall trust.
func stale(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		pod := o.Pods[name]
		pod.IsStale = true
		o.Pods[name] = pod
	}
	return o
}

// changedPod has another pod of a member.
func changedPod(o membership.Observed, name string, change func(pod *membership.Pod)) membership.Observed {
	pod := o.Pods[name]
	change(&pod)
	o.Pods[name] = pod
	return o
}

// reshaped has members whose pods were created of another spec.
func reshaped(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o = changedPod(o, name, func(pod *membership.Pod) { pod.HasOldSpec = true })
	}
	return o
}

// down has members in whose pods no process runs.
func down(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o = changedPod(o, name, func(pod *membership.Pod) { pod.IsReady, pod.IsDown = false, true })
	}
	return o
}

// joined is a cluster whose second member has joined as a learner.
func joined() membership.Observed {
	o := one()
	o.Members = append(o.Members, membership.Member{Name: second, PodUID: "uid1", Version: "3.5.35"})
	pod := crashed("uid1")
	pod.Members = []string{first, second}
	o.Pods[second] = pod
	return asked(o, voter(first), learner(second))
}

// emptied is a cluster in which a member has joined, and has lost its data under its pod.
func emptied(o membership.Observed, name string) membership.Observed {
	pod := o.Pods[name]
	pod.IsReady, pod.IsEmptied, pod.HasJoined = false, true, true
	o.Pods[name] = pod
	return o
}
