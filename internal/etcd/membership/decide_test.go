package membership_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

const first, second, third = "my-cluster-0", "my-cluster-1", "my-cluster-2"

func ready(uid string) membership.Pod {
	return membership.Pod{UID: uid, IsOwned: true, MayRun: true, IsReady: true}
}

// three is a cluster of three members at rest.
func three() membership.Observed {
	o := membership.Observed{
		Size: 3, Names: []string{first, second, third},
		Pods: map[string]membership.Pod{}, HasClaim: map[string]bool{},
	}
	for i, name := range o.Names {
		uid := fmt.Sprint("uid", i)
		o.Members = append(o.Members, membership.Member{Name: name, PodUID: uid, ID: fmt.Sprint("id", i), IsVoter: true})
		o.Pods[name], o.HasClaim[name] = ready(uid), true
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
	return membership.Listed{ID: "id of " + name, Name: name, HasStarted: true}
}

func learner(name string) membership.Listed {
	return membership.Listed{ID: "id of " + name, Name: name, HasStarted: true, IsLearner: true}
}

func TestTheNextAct(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		observed membership.Observed
		act      membership.Act
		reason   membership.Reason
	}{
		"nothing at rest": {three(), membership.Rest{}, ""},
		"a new cluster is one member": {
			membership.Observed{Size: 3, Names: []string{first, second, third}},
			membership.CreatePod{Name: first, Members: []string{first}},
			membership.WaitingForPods,
		},
		"a paused cluster is not begun": {
			membership.Observed{Size: 3, Paused: true, Names: []string{first}}, membership.Rest{}, "",
		},
		"the first member is waited for": {
			changed(one(), func(o *membership.Observed) { o.Pods[first] = membership.Pod{UID: "uid0", IsOwned: true} }),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"etcd is asked before a member is added": {one(), membership.Ask{}, membership.EtcdNotAnswering},
		"the next member is added as a learner": {
			changed(one(), func(o *membership.Observed) { o.List = []membership.Listed{voter(first)} }),
			membership.AddLearner{Name: second},
			membership.WaitingForMembers,
		},
		"no member is added beside one that is not ready": {
			changed(three(), func(o *membership.Observed) {
				o.Size, o.Names = 4, append(o.Names, "my-cluster-3")
				o.Pods[second] = membership.Pod{UID: "uid1", IsOwned: true, MayRun: true}
				o.List = []membership.Listed{voter(first), voter(second), voter(third)}
			}),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"an added member without a pod gets one": {
			changed(one(), func(o *membership.Observed) {
				o.List = []membership.Listed{voter(first), {ID: "b", Name: second, IsLearner: true}}
			}),
			membership.CreatePod{Name: second, Existing: true, Members: []string{first, second}},
			membership.WaitingForPods,
		},
		"a learner that has not started is waited for": {
			changed(joined(), func(o *membership.Observed) { o.List[1].HasStarted = false }),
			membership.Ask{},
			membership.WaitingForLearners,
		},
		"a learner whose pod has no certificate is not asked for": {
			changed(joined(), func(o *membership.Observed) {
				o.List[1].HasStarted, o.Pods[second] = false, membership.Pod{UID: "uid1", IsOwned: true}
			}),
			membership.Rest{},
			membership.WaitingForPods,
		},
		"a learner that has started is promoted": {
			joined(), membership.Promote{Name: second, ID: "id of " + second}, membership.WaitingForLearners,
		},
		"a pod that was created and not recorded is made again": {
			changed(one(), func(o *membership.Observed) { o.Pods[second] = membership.Pod{UID: "lost", IsOwned: true} }),
			membership.DeletePod{Name: second, UID: "lost"},
			"",
		},
		"a pod that replaces a recorded one is made again": {
			changed(three(), func(o *membership.Observed) { o.Pods[second] = membership.Pod{UID: "lost", IsOwned: true} }),
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
			changed(three(), func(o *membership.Observed) {
				o.Paused, o.Pods[second] = true, membership.Pod{UID: "lost", IsOwned: true}
			}),
			membership.Rest{},
			membership.UnknownMemberPod,
		},
		"a lost pod with its data is created again": {
			changed(three(), func(o *membership.Observed) { delete(o.Pods, second) }),
			membership.CreatePod{Name: second, Existing: true, Members: []string{second}},
			membership.WaitingForPods,
		},
		"a lost pod and its claim are not": {
			changed(three(), func(o *membership.Observed) { delete(o.Pods, second); delete(o.HasClaim, second) }),
			membership.Rest{},
			membership.MemberDataLost,
		},
		"a lost ephemeral pod is not": {
			changed(three(), func(o *membership.Observed) { delete(o.Pods, second); o.Ephemeral = true }),
			membership.Rest{},
			membership.MemberDataLost,
		},
		"a pod that was lost before it started is created again": {
			changed(joined(), func(o *membership.Observed) { delete(o.Pods, second); o.List[1].HasStarted = false }),
			membership.CreatePod{Name: second, Existing: true, Members: []string{first, second}},
			membership.WaitingForPods,
		},
		"a smaller size is not supported": {
			changed(three(), func(o *membership.Observed) { o.Size = 1 }), membership.Rest{}, membership.ScalingDown,
		},
		"a member that is not ours stays": {
			changed(one(), func(o *membership.Observed) { o.List = []membership.Listed{voter(first), voter("")} }),
			membership.Rest{},
			membership.UnknownMember,
		},
		"a pod that is not ready is reported": {
			changed(three(), func(o *membership.Observed) {
				o.Pods[third] = membership.Pod{UID: "uid2", IsOwned: true, MayRun: true}
			}),
			membership.Rest{},
			membership.WaitingForPods,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := membership.Decide(test.observed)
			if diff := cmp.Diff(test.act, got.Act); diff != "" {
				t.Errorf("the act differs (-want +got):\n%s", diff)
			}
			var reason membership.Reason
			if got.Obstacle != nil {
				reason = got.Obstacle.Reason
			}
			if reason != test.reason {
				t.Errorf("the reason is %q, want %q", reason, test.reason)
			}
		})
	}
}

func changed(o membership.Observed, change func(o *membership.Observed)) membership.Observed {
	change(&o)
	return o
}

// joined is a cluster whose second member has joined as a learner.
func joined() membership.Observed {
	o := one()
	o.Members = append(o.Members, membership.Member{Name: second, PodUID: "uid1"})
	o.Pods[second] = membership.Pod{UID: "uid1", IsOwned: true, MayRun: true}
	o.List = []membership.Listed{voter(first), learner(second)}
	return o
}

// world is a cluster that acts are carried out on.
type world struct {
	observed membership.Observed
	list     []membership.Listed
	pods     int
}

// step carries one act out. A crash comes after the act and before it is recorded.
func (w *world) step(t *testing.T, crashes bool) (act membership.Act) {
	t.Helper()
	w.kubelet()
	w.observed.List = nil
	d := membership.Decide(w.observed)
	if _, asks := d.Act.(membership.Ask); asks {
		w.observed.List = w.list
		w.observed.Members = membership.Record(w.observed.Members, w.list)
		d = membership.Decide(w.observed)
	}
	switch act := d.Act.(type) {
	case membership.CreatePod:
		if _, exists := w.observed.Pods[act.Name]; exists {
			t.Fatalf("%s exists", act.Name)
		}
		w.pods++
		uid := fmt.Sprint("pod", w.pods)
		w.observed.Pods[act.Name] = membership.Pod{UID: uid, IsOwned: true}
		if !crashes {
			w.observed.Members = membership.Created(w.observed.Members, act.Name, uid)
		}
	case membership.DeletePod:
		delete(w.observed.Pods, act.Name)
	case membership.AddLearner:
		w.list = append(w.list, membership.Listed{ID: fmt.Sprint(len(w.list)), Name: act.Name, IsLearner: true})
	case membership.Promote:
		at := slices.IndexFunc(w.list, func(l membership.Listed) bool { return l.ID == act.ID })
		w.list[at].IsLearner = false
	case membership.Ask, membership.Rest:
	}
	return d.Act
}

// kubelet starts the pods that are recorded: they get certificates.
func (w *world) kubelet() {
	for _, member := range w.observed.Members {
		pod := w.observed.Pods[member.Name]
		if pod.UID != member.PodUID || pod.UID == "" {
			continue
		}
		at := slices.IndexFunc(w.list, func(l membership.Listed) bool { return l.Name == member.Name })
		if at < 0 && len(w.list) == 0 {
			w.list, at = append(w.list, membership.Listed{ID: "0", Name: member.Name}), 0
		}
		w.list[at].HasStarted = true
		pod.MayRun, pod.IsReady = true, !w.list[at].IsLearner
		w.observed.Pods[member.Name] = pod
	}
}

func TestWhereTheOperatorCrashesTheClusterStillGrows(t *testing.T) {
	t.Parallel()
	for crashAt := range 20 {
		w := &world{observed: membership.Observed{Size: 3, Names: []string{first, second, third}, Pods: map[string]membership.Pod{}, HasClaim: map[string]bool{}}}
		steps := 0
		for ; steps < 40; steps++ {
			if _, rests := w.step(t, steps == crashAt).(membership.Rest); rests && len(w.list) == 3 {
				break
			}
			learners := 0
			for _, listed := range w.list {
				if listed.IsLearner {
					learners++
				}
			}
			if learners > 1 {
				t.Fatalf("crash %d: %d learners at once", crashAt, learners)
			}
		}
		w.kubelet()
		names := []string{}
		for _, member := range w.observed.Members {
			if member.ID != "" && member.IsVoter {
				names = append(names, member.Name)
			}
		}
		if !reflect.DeepEqual(names, []string{first, second, third}) {
			t.Errorf("after a crash at step %d and %d steps the voters are %v: %+v", crashAt, steps, names, w.observed)
		}
	}
}
