package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func voters(ready ...bool) []etcdv1beta2.MemberStatus {
	members := make([]etcdv1beta2.MemberStatus, 0, len(ready))
	for i, isReady := range slices.Backward(ready) {
		members = append(members, etcdv1beta2.MemberStatus{
			Name: model.Names{Cluster: "my-cluster"}.Member(i), MemberID: "1", Role: etcdv1beta2.RoleVoter, Ready: isReady,
		})
	}
	return members
}

func TestTheConditionsSayHowManyMembersAreReady(t *testing.T) {
	t.Parallel()
	problem := &model.Problem{Reason: model.CALost, Message: "A CA is lost."}
	for name, test := range map[string]struct {
		size    int32
		members []etcdv1beta2.MemberStatus
		problem *model.Problem
		paused  bool

		ready, available, message string
	}{
		"all members":           {size: 3, members: voters(true, true, true), ready: "MembersReady", available: "QuorumReady", message: "All 3 members are ready."},
		"an even number":        {size: 2, members: voters(true, true), ready: "MembersReady", available: "QuorumReady", message: "tolerates no more losses than 1."},
		"one is missing":        {size: 3, members: voters(true, false, true), ready: "WaitingForPods", available: "QuorumReady", message: "2 of 3 members are ready."},
		"a quorum is missing":   {size: 3, members: voters(false, false, true), ready: "WaitingForPods", available: "NoQuorum", message: "1 of 3 members are ready."},
		"half is no quorum":     {size: 2, members: voters(true, false), ready: "WaitingForPods", available: "NoQuorum", message: "1 of 2 members are ready."},
		"no member":             {size: 1, ready: "WaitingForPods", available: "NoQuorum", message: "0 of 1 members are ready."},
		"a problem":             {size: 1, members: voters(true), problem: problem, ready: "CALost", available: "QuorumReady", message: "A CA is lost."},
		"paused while it grows": {size: 3, members: voters(true), paused: true, ready: "Paused", available: "QuorumReady", message: "1 of 3 members are ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			etcd.Spec.Size, etcd.Spec.Paused, etcd.Generation = test.size, test.paused, 7
			cluster, _ := model.Resolve(etcd, settings())
			status := cluster.Status(model.Seen{Members: test.members, Problem: test.problem, Now: noon()})
			for kind, want := range map[string]string{etcdv1beta2.ConditionReady: test.ready, etcdv1beta2.ConditionAvailable: test.available} {
				got := apimeta.FindStatusCondition(status.Conditions, kind)
				if got == nil || got.Reason != want || got.ObservedGeneration != 7 {
					t.Errorf("%s is %+v, want %s", kind, got, want)
				}
			}
			if ready := status.Conditions[0]; !strings.Contains(ready.Message, test.message) {
				t.Errorf("the message is %q, want %q", ready.Message, test.message)
			}
		})
	}
}

func TestAConditionKeepsTheTimeOfItsStatus(t *testing.T) {
	t.Parallel()
	cluster, _ := model.Resolve(three(t), settings())
	before := cluster.Status(model.Seen{Members: voters(true, true, true), Now: noon()})
	later := noon().Add(time.Hour)
	after := cluster.Status(model.Seen{Before: before, Members: voters(true, true, false), Now: later})
	ready, available := after.Conditions[0], after.Conditions[1]
	if !ready.LastTransitionTime.Equal(new(metav1.NewTime(later))) || !available.LastTransitionTime.Equal(new(metav1.NewTime(noon()))) {
		t.Errorf("Ready changed at %s, Available at %s", ready.LastTransitionTime, available.LastTransitionTime)
	}
	if after.Phase != etcdv1beta2.PhaseRunning || after.MemberStatuses[0].Name != "my-cluster-0" {
		t.Errorf("the phase is %s, the first member is %s", after.Phase, after.MemberStatuses[0].Name)
	}
}
