package membership_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// due has members that were started under publication 4 and have mounted 5.
func due(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o = changedPod(o, name, func(pod *membership.Pod) { pod.Due = membership.Due{Revision: 5, Loaded: 4} })
	}
	return o
}

// urgent has such members whose CAs expire.
func urgent(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o = changedPod(due(o, name), name, func(pod *membership.Pod) { pod.Due.IsUrgent = true })
	}
	return o
}

// askedFor has a member that was asked to start etcd again for a revision.
func askedFor(o membership.Observed, name string, revision int64) membership.Observed {
	return changedPod(o, name, func(pod *membership.Pod) { pod.AskedRevision = revision })
}

func unready(o membership.Observed, names ...string) membership.Observed {
	for _, name := range names {
		o = changedPod(o, name, func(pod *membership.Pod) { pod.IsReady = false })
	}
	return o
}

func blocked(o membership.Observed, names ...string) membership.Observed {
	o.Blocked = names
	return o
}

// five is a cluster of five members at rest.
func five() membership.Observed {
	o := three()
	o.Size = 5
	for _, name := range memberNames[3:5] {
		o.Members = append(o.Members, membership.Member{Name: name, PodUID: "of " + name, ID: "id of " + name, IsVoter: true, Version: "3.5.35"})
		o.Pods[name], o.Claims[name] = ready("of "+name), membership.Claim{UID: "claim of " + name}
	}
	return o
}

// two is a cluster of two voters that shall have a third member.
func two() membership.Observed {
	o := without(three(), third)
	o.Members = o.Members[:2]
	return o
}

// growing is a cluster of two voters, and a third member that has joined and is no voter yet.
func growing() membership.Observed {
	o := unready(three(), third)
	o.Members[2].IsVoter = false
	return asked(o, voter(first), voter(second), learner(third))
}

func starts(name, uid string) membership.Restart {
	return membership.Restart{Name: name, UID: uid, Revision: 5}
}

var startsSecond = starts(second, "uid1")

func TestMembersAreStartedAgainForChangedCAs(t *testing.T) {
	t.Parallel()
	all := []membership.Listed{voter(first), voter(second), voter(third)}
	fourth, fifth := memberNames[3], memberNames[4]
	moved := membership.MoveLeader{From: first, To: second, ToID: "id of " + second}
	for name, test := range map[string]struct {
		observed membership.Observed
		act      membership.Act
		reason   membership.Reason
		message  string
	}{
		"etcd is asked when a start is due":           {due(three(), third), membership.Ask{}, membership.EtcdNotAnswering, "does not answer"},
		"a paused cluster is left as it is":           {paused(urgent(three(), second)), membership.Rest{}, "", ""},
		"a follower is started before the leader":     {asked(due(three(), first, second, third), all...), startsSecond, membership.Restarting, "Member my-cluster-1 is being started again to load changed CAs."},
		"the leader is moved before it is started":    {asked(due(three(), first), all...), moved, membership.WaitingForMembers, "The leader is being moved"},
		"the only member is started":                  {asked(sized(due(one(), first), 1), voter(first)), starts(first, "uid0"), membership.Restarting, ""},
		"the only member is started though not ready": {asked(sized(unready(due(one(), first), first), 1), silent(first)), starts(first, "uid0"), membership.Restarting, ""},
		"an ephemeral member keeps its pod":           {asked(ephemeral(due(three(), second)), all...), startsSecond, membership.Restarting, ""},

		"no other is started beside one that is": {asked(askedFor(due(three(), second, third), second, 5), all...), membership.Rest{}, membership.Restarting, "Member my-cluster-1 is being started again"},
		"one that should have been started keeps none whose CAs expire": {
			asked(askedFor(changedPod(urgent(three(), second, third), second, func(pod *membership.Pod) { pod.IsOverdue = true }), second, 5), all...),
			starts(third, "uid2"), membership.Restarting, "",
		},
		"one that should have been started is waited for while nothing expires": {
			asked(askedFor(changedPod(due(three(), second, third), second, func(pod *membership.Pod) { pod.IsOverdue = true }), second, 5), all...),
			membership.Rest{},
			membership.Restarting, "Member my-cluster-1 is being started again",
		},
		"one that does not start is no spare": {
			asked(unready(askedFor(changedPod(urgent(three(), second, third), second, func(pod *membership.Pod) { pod.IsOverdue = true }), second, 5), second), voter(first), silent(second), voter(third)),
			membership.Rest{},
			membership.Restarting, "only 1 of 2 other members answer",
		},
		"no other is started beside one that may be at any time": {
			asked(askedFor(changedPod(due(three(), third), second, func(pod *membership.Pod) { pod.IsSilent = true }), second, 5), all...),
			membership.Rest{},
			membership.Restarting, "Member my-cluster-1 was asked to start again to load changed CAs, and its agent does not tell whether it has.",
		},
		"no spec is rolled out beside one that may be started at any time": {
			asked(askedFor(changedPod(reshaped(three(), third), second, func(pod *membership.Pod) { pod.IsSilent = true }), second, 5), all...),
			membership.Rest{},
			membership.Restarting, "Member my-cluster-1 was asked",
		},
		"one that may be started keeps none whose CAs expire": {
			asked(askedFor(changedPod(urgent(three(), third), second, func(pod *membership.Pod) { pod.IsSilent = true }), second, 5), all...),
			starts(third, "uid2"), membership.Restarting, "",
		},
		"one whose agent is silent and that was never asked keeps none": {
			asked(changedPod(due(three(), third), second, func(pod *membership.Pod) { pod.IsSilent = true }), all...),
			starts(third, "uid2"), membership.Restarting, "",
		},
		"no other is started beside one that was asked for later CAs": {
			asked(askedFor(changedPod(due(three(), second, third), third, func(pod *membership.Pod) { pod.Due.Loaded = 0 }), third, 6), all...),
			membership.Rest{},
			membership.Restarting, "Member my-cluster-2 is being started again",
		},
		"one asked for earlier CAs that it has not loaded is waited for": {
			asked(askedFor(changedPod(due(three(), second, third), third, func(pod *membership.Pod) { pod.Due.Loaded = 3 }), third, 4), all...),
			membership.Rest{},
			membership.Restarting, "Member my-cluster-2 is being started again",
		},
		"one asked for earlier CAs that it has loaded is asked again": {asked(askedFor(due(three(), second), second, 4), all...), startsSecond, membership.Restarting, ""},
		"one asked for earlier CAs is asked where the loaded ones are unknown": {
			asked(askedFor(changedPod(due(three(), second), second, func(pod *membership.Pod) { pod.Due.Loaded = 0 }), second, 4), all...),
			startsSecond, membership.Restarting, "",
		},
		"urgent members are started one after the other while etcd does not answer": {
			asked(askedFor(unready(urgent(three(), first, second, third), first, second, third), third, 5)), membership.Rest{}, membership.Restarting, "Member my-cluster-2 is being started again",
		},
		"a start keeps a pod of another spec":     {asked(askedFor(reshaped(due(three(), second), third), second, 5), all...), membership.Rest{}, membership.Restarting, "my-cluster-1 is being started again"},
		"a start keeps too many members":          {asked(askedFor(sized(due(three(), second), 1), second, 5), all...), membership.Rest{}, membership.Restarting, "my-cluster-1 is being started again"},
		"a start keeps a learner from the quorum": {askedFor(due(growing(), second), second, 5), membership.Rest{}, membership.Restarting, "my-cluster-1 is being started again"},
		"a start keeps a member from joining":     {asked(askedFor(due(two(), second), second, 5), voter(first), voter(second)), membership.Rest{}, membership.Restarting, "my-cluster-1 is being started again"},
		"a pod that is missed beside a start stays": {
			asked(unready(reshaped(askedFor(due(three(), second), second, 5), third), third), voter(first), voter(second), silent(third)),
			membership.Rest{},
			membership.Restarting, "my-cluster-1 is being started again",
		},

		"a start waits for a member that is not ready": {
			asked(unready(due(three(), second), third), voter(first), voter(second), silent(third)),
			membership.Rest{},
			membership.Restarting, "Member my-cluster-2 is not ready. The next member is started again to load changed CAs when all are healthy.",
		},
		"a start waits for an alarm": {
			changed(asked(due(three(), second), all...), func(o *membership.Observed) { o.Alarms = []membership.Alarm{{Kind: membership.CorruptAlarm, ID: "9"}} }),
			membership.Rest{},
			membership.Restarting, "etcd has the alarm CORRUPT",
		},
		"a member that is not ready is started when the others are a quorum": {
			asked(unready(due(three(), second, third), third), voter(first), voter(second), silent(third)), starts(third, "uid2"), membership.Restarting, "",
		},
		"of two members that are not ready one is started when the others are a quorum": {
			asked(unready(due(five(), second, fourth, fifth), fourth, fifth), voter(first), voter(second), voter(third), silent(fourth), silent(fifth)),
			starts(fourth, "of "+fourth), membership.Restarting, "",
		},
		"a member that is not ready stays when the others are no quorum": {
			asked(unready(due(three(), third), second, third), voter(first), silent(second), silent(third)), membership.Rest{}, membership.Restarting, "Member my-cluster-1 is not ready.",
		},
		"a start waits for etcd": {asked(due(three(), second)), membership.Rest{}, membership.EtcdNotAnswering, "does not answer"},

		"an urgent start waits for no alarm": {
			changed(asked(urgent(three(), second), all...), func(o *membership.Observed) { o.Alarms = []membership.Alarm{{Kind: membership.CorruptAlarm, ID: "9"}} }),
			startsSecond, membership.Restarting, "",
		},
		"an urgent start waits for a quorum without its member": {
			asked(unready(urgent(three(), second), third), voter(first), voter(second), silent(third)), membership.Rest{}, membership.Restarting, "only 1 of 2 other members answer",
		},
		"an urgent start waits for no member that the quorum does not need": {
			asked(unready(urgent(five(), second), third), voter(first), voter(second), silent(third), voter(fourth), voter(fifth)), startsSecond, membership.Restarting, "",
		},
		"a member that is not ready comes before urgent ones": {
			asked(unready(due(urgent(five(), second), fifth), fifth), voter(first), voter(second), voter(third), voter(fourth), silent(fifth)),
			starts(fifth, "of "+fifth), membership.Restarting, "",
		},
		"urgent members come before others, also when they lead": {
			asked(due(urgent(three(), first), second, third), all...), moved, membership.WaitingForMembers, "",
		},
		"the leader is moved to a member that answers": {
			asked(unready(urgent(five(), first), second), voter(first), silent(second), voter(third), voter(fourth), voter(fifth)),
			membership.MoveLeader{From: first, To: third, ToID: "id of " + third},
			membership.WaitingForMembers, "",
		},
		"an urgent member is started while etcd does not answer":         {asked(due(urgent(three(), second), first)), startsSecond, membership.Restarting, ""},
		"an urgent member is started before another is replaced":         {asked(without(urgent(three(), second), third)), startsSecond, membership.Restarting, ""},
		"an urgent member is started before a quorum is said to be lost": {asked(without(urgent(three(), second), first, third)), startsSecond, membership.Restarting, ""},
		"no urgent member waits for one that may have been removed":      {asked(askedFor(urgent(leaving(three(), third), second, third), third, 5)), startsSecond, membership.Restarting, ""},
		"an urgent start comes before a learner is promoted":             {urgent(growing(), second), startsSecond, membership.Restarting, ""},
		"a learner is started as a follower is":                          {urgent(growing(), third), starts(third, "uid2"), membership.Restarting, ""},
		"a learner is promoted before a start that waits for it":         {due(growing(), second), membership.Promote{Name: third, ID: "id of " + third}, membership.WaitingForLearners, ""},
		"of two members none is started before a third joins":            {asked(due(two(), second), voter(first), voter(second)), membership.AddLearner{Name: third}, membership.WaitingForMembers, ""},
		"one of two members is started where there shall be two":         {asked(sized(due(two(), second), 2), voter(first), voter(second)), startsSecond, membership.Restarting, ""},
		"a member that answers to nothing is removed before a start waits": {
			asked(sized(unready(due(five(), second), fifth), 3), voter(first), voter(second), voter(third), voter(fourth), silent(fifth)),
			membership.SetLeaving{Name: fifth, Leaving: true},
			membership.RemovingMember, "",
		},
		"a start comes before too many members are removed": {asked(sized(due(three(), second), 1), all...), startsSecond, membership.Restarting, ""},
		"a start comes before a member is added":            {asked(changed(due(three(), second), func(o *membership.Observed) { o.Size = 4 }), all...), startsSecond, membership.Restarting, ""},
		"a start comes before another spec":                 {asked(reshaped(due(three(), second), third), all...), startsSecond, membership.Restarting, ""},
		"no member is started at another peer URL": {
			asked(due(three(), second), voter(first), voter(second), changedListed(voter(third), func(l *membership.Listed) { l.OwnURL = "https://" })), membership.Rest{}, membership.PeerURLChanged, "",
		},

		"a member that something is in the way of is left": {asked(blocked(due(three(), second, third), second), all...), starts(third, "uid2"), membership.Restarting, ""},
		"a blocked member asks nothing of etcd":            {blocked(due(three(), second), second), membership.Rest{}, "", ""},
		"a pod that is being deleted is left":              {asked(changedPod(urgent(three(), second), second, func(pod *membership.Pod) { pod.IsEnding = true }), all...), membership.Rest{}, membership.WaitingForPods, ""},
		"a pod without certificates is left":               {asked(changedPod(urgent(three(), second), second, func(pod *membership.Pod) { pod.MayRun = false }), all...), membership.Rest{}, "", ""},
		"a pod in which no process runs is left":           {asked(down(urgent(three(), second), second), voter(first), silent(second), voter(third)), membership.Rest{}, membership.WaitingForPods, ""},
		"a pod that has ended is created again":            {asked(changedPod(urgent(three(), second), second, func(pod *membership.Pod) { pod.HasEnded = true }), all...), membership.DeletePod{Name: second, UID: "uid1"}, membership.WaitingForPods, ""},
		"an emptied member is replaced":                    {asked(emptied(urgent(three(), second), second), voter(first), silent(second), voter(third)), membership.SetLeaving{Name: second, Leaving: true}, membership.ReplacingMember, ""},
		"no urgent member waits for an emptied one":        {asked(askedFor(emptied(urgent(three(), second, third), second), second, 5)), starts(third, "uid2"), membership.Restarting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if message := decides(t, test.observed, test.act, test.reason); !strings.Contains(message, test.message) {
				t.Errorf("the message is %q, want %q", message, test.message)
			}
		})
	}
}

func TestEtcdIsAskedAgainWhileAMemberIsStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		observed membership.Observed
		again    bool
	}{
		"it is being started":             {asked(askedFor(due(three(), second), second, 5), voter(first), voter(second), voter(third)), true},
		"a pod that is ready is silent":   {asked(due(three(), second), voter(first), voter(second), silent(third)), true},
		"a pod reports when it is ready":  {asked(unready(due(three(), second), third), voter(first), voter(second), silent(third)), false},
		"an urgent start waits for a pod": {asked(unready(urgent(three(), second), third), voter(first), voter(second), silent(third)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := membership.Decide(c.observed).Again; got != c.again {
				t.Errorf("asks again %t, want %t", got, c.again)
			}
		})
	}
}

// restarting is a cluster of two voters more that load CAs, of which it was recorded that the second is restarted.
func restarting(ago time.Duration, change func(o *membership.Observed)) membership.Observed {
	o := asked(due(three(), second, third), changedListed(voter(first), func(l *membership.Listed) { l.IsLeader = false }),
		changedListed(voter(second), func(l *membership.Listed) { l.IsLeader = true }), voter(third))
	o.Members = membership.WithRestarting(o.Members, membership.SetRestarting{Name: second, Version: "3.5.35", Since: today.Add(-ago)})
	change(&o)
	return o
}

func TestAMemberIsRestartedAloneFromWhenThatIsRecorded(t *testing.T) {
	t.Parallel()
	record := membership.SetRestarting{Name: third, Version: "3.5.35", Since: today}
	onSecond := func(change func(pod *membership.Pod)) func(o *membership.Observed) {
		return func(o *membership.Observed) { *o = changedPod(*o, second, change) }
	}
	for name, test := range map[string]struct {
		observed membership.Observed
		act      membership.Act
	}{
		"it is recorded before": {asked(due(three(), third), voter(first), voter(second), voter(third)), record},
		"a restart that was begun is continued, of the leader, too": {
			restarting(0, func(*membership.Observed) {}), membership.MoveLeader{From: second, To: first, ToID: "id of " + first},
		},
		"while nothing tells what it has loaded, no other is": {
			restarting(time.Minute, onSecond(func(pod *membership.Pod) { pod.Due = membership.Due{} })), membership.Rest{},
		},
		"one of another spec is not, either": {
			restarting(time.Minute, func(o *membership.Observed) {
				*o = changedPod(*o, second, func(pod *membership.Pod) { pod.Due = membership.Due{} })
				*o = changedPod(*o, third, func(pod *membership.Pod) { pod.Due, pod.HasOldSpec = membership.Due{}, true })
			}), membership.Rest{},
		},
		"what is recorded is over after two minutes": {
			restarting(2*time.Minute, onSecond(func(pod *membership.Pod) { pod.Due = membership.Due{} })), record,
		},
		"a time to come is none": {
			restarting(-time.Hour, onSecond(func(pod *membership.Pod) { pod.Due = membership.Due{} })), record,
		},
		"it is over in another pod": {
			restarting(0, func(o *membership.Observed) {
				*o = changedPod(*o, second, func(pod *membership.Pod) { pod.Due, pod.UID = membership.Due{}, "other" })
				o.Members[1].PodUID = "other"
				o.Members = membership.Created(o.Members, membership.CreatePod{Name: second}, "other")
			}), record,
		},
		"it is over when all is loaded": {
			restarting(0, onSecond(func(pod *membership.Pod) { pod.Due, pod.HasLoaded = membership.Due{}, true })), record,
		},
		"one that something is in the way of keeps no other": {restarting(0, func(o *membership.Observed) { o.Blocked = []string{second} }), record},
		"it keeps none whose CAs expire": {
			restarting(0, func(o *membership.Observed) {
				*o = urgent(changedPod(*o, second, func(pod *membership.Pod) { pod.Due = membership.Due{} }), third)
			}), record,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.act, membership.Decide(test.observed).Act); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARestartThatIsOverIsNoLongerRecorded(t *testing.T) {
	t.Parallel()
	o := restarting(0, func(*membership.Observed) {})
	if since := o.Restarted()[1].RestartingSince; !since.Equal(today) {
		t.Errorf("while it is due, it is recorded since %s, want %s", since, today)
	}
	o = changedPod(o, second, func(pod *membership.Pod) { pod.Due, pod.HasLoaded = membership.Due{}, true })
	if since := o.Restarted()[1].RestartingSince; !since.IsZero() {
		t.Errorf("once all is loaded, it is recorded since %s", since)
	}
}

func TestAStartThatFailsKeepsNoOtherMember(t *testing.T) {
	t.Parallel()
	o := asked(due(three(), second, third), voter(first), voter(second), voter(third))
	others, isOther := o.Blocking(startsSecond)
	if !isOther || !slices.Equal(others.Blocked, []string{second}) {
		t.Fatalf("blocked are %v", others.Blocked)
	}
	if diff := cmp.Diff(membership.Act(starts(third, "uid2")), decideOnce(others).Act); diff != "" {
		t.Error(diff)
	}
}
