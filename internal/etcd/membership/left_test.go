package membership_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// unrecorded is a cluster whose status and pods were lost, and that finds these claims.
func unrecorded(claims map[string]membership.Claim) membership.Observed {
	o := three()
	o.Members, o.Pods, o.Claims, o.WasReady, o.Asked = nil, map[string]membership.Pod{}, claims, false, true
	return o
}

var (
	joinedClaim = membership.Claim{UID: "claim", HasJoined: true}
	newClaim    = membership.Claim{UID: "claim"}
)

func again(name string) membership.CreatePod {
	return membership.CreatePod{Name: name, HasJoined: true, Members: []string{name}, Version: "3.5.35"}
}

func TestAClusterWithoutAStatusDoesNotForgetItsData(t *testing.T) {
	t.Parallel()
	begun := membership.CreatePod{Name: first, IsFirst: true, Members: []string{first}, Version: "3.5.35"}
	lost := joinedClaim
	lost.IsLost = true
	for name, test := range map[string]struct {
		observed membership.Observed
		act      membership.Act
		reason   membership.Reason
	}{
		"nothing is left":                       {unrecorded(nil), begun, membership.WaitingForPods},
		"the first member had not joined":       {unrecorded(map[string]membership.Claim{first: newClaim}), begun, membership.WaitingForPods},
		"the first member had joined":           {unrecorded(map[string]membership.Claim{first: joinedClaim}), again(first), membership.WaitingForPods},
		"another member had joined":             {unrecorded(map[string]membership.Claim{first: newClaim, second: joinedClaim}), again(first), membership.WaitingForPods},
		"no claim says so, and there are two":   {unrecorded(map[string]membership.Claim{first: newClaim, second: newClaim}), again(first), membership.WaitingForPods},
		"the volume of the only member is gone": {unrecorded(map[string]membership.Claim{first: lost}), membership.Rest{}, membership.QuorumLost},
		"certificates were issued to members": {
			changed(unrecorded(nil), func(o *membership.Observed) { o.HadMembers = true }), membership.Rest{}, membership.QuorumLost,
		},
		"certificates were issued, and the claim does not say so": {
			changed(unrecorded(map[string]membership.Claim{first: newClaim}), func(o *membership.Observed) { o.HadMembers = true }), again(first), membership.WaitingForPods,
		},
		"one of three claims says so": {
			changed(unrecorded(map[string]membership.Claim{first: joinedClaim, second: newClaim, third: newClaim}), func(o *membership.Observed) {
				o.Members = []membership.Member{{Name: first, PodUID: "uid0"}}
				o.Pods[first] = crashed("uid0")
			}), again(second), membership.WaitingForPods,
		},
		"another owner has a claim with data": {
			changed(unrecorded(nil), func(o *membership.Observed) { o.Blocked = []string{second} }), membership.Rest{}, "",
		},
		"a pod without data is one of two that are known by their claims": {
			changed(unrecorded(map[string]membership.Claim{first: joinedClaim, second: joinedClaim}), func(o *membership.Observed) {
				o.Members = []membership.Member{{Name: first, PodUID: "uid0"}}
				o.Pods[first] = membership.Pod{UID: "uid0", IsOwned: true, HasJoined: true, IsEmptied: true, Version: "3.5.35"}
			}), again(second), membership.WaitingForPods,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decides(t, test.observed, test.act, test.reason)
		})
	}
}

func TestWhatAnotherSpecHasLeftIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		observed membership.Observed
		object   string
	}{
		"a pod": {changedPod(left(), first, func(pod *membership.Pod) { pod.Unlike = "spec.pod.ephemeral" }), "Pod " + first},
		"a pod that was not signed for": {
			changed(left(), func(o *membership.Observed) {
				o.Pods = map[string]membership.Pod{second: {UID: "uid1", Unlike: "spec.pod.ephemeral"}}
			}), "Pod " + second,
		},
		"a claim": {ephemeral(unrecorded(map[string]membership.Claim{second: {UID: "claim", Unlike: "spec.pod.ephemeral"}})), "The PersistentVolumeClaim of member " + second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := decides(t, test.observed, membership.Rest{}, membership.SpecDiffers)
			if !strings.HasPrefix(message, test.object+" ") || !strings.Contains(message, "with another spec.pod.ephemeral") {
				t.Errorf("the message is %q", message)
			}
		})
	}
}

func TestNoMessageAdvisesToDeleteAPodThatHasItsDataInIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		observed membership.Observed
		reason   membership.Reason
	}{
		"it was not signed for":      {changed(left(), func(o *membership.Observed) { o.Pods[first] = membership.Pod{UID: "uid0"} }), membership.UnknownMemberPod},
		"etcd does not answer":       {asked(left()), membership.EtcdNotAnswering},
		"it has the name of another": {changed(three(), func(o *membership.Observed) { o.Pods[second] = ready("other") }), membership.UnknownMemberPod},
	} {
		for _, isEphemeral := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o := test.observed
				o.Pods = map[string]membership.Pod{}
				for name, pod := range test.observed.Pods {
					pod.IsEphemeral = isEphemeral
					o.Pods[name] = pod
				}
				message := decides(t, o, membership.Rest{}, test.reason)
				advises := strings.Contains(message, " Delete it.") || strings.Contains(message, "delete the pod")
				if advises == isEphemeral {
					t.Errorf("ephemeral %v: the message is %q", isEphemeral, message)
				}
			})
		}
	}
}

func TestAMemberWithAnotherPeerURLIsNamed(t *testing.T) {
	t.Parallel()
	elsewhere := changedListed(voter(second), func(l *membership.Listed) { l.OwnURL = "https://own:2380" })
	known := changed(three(), func(o *membership.Observed) { o.Known = []membership.Listed{voter(first), elsewhere, voter(third)} })
	decides(t, known, membership.Ask{}, membership.EtcdNotAnswering)
	message := decides(t, asked(known, voter(first), elsewhere, voter(third)), membership.Rest{}, membership.PeerURLChanged)
	if !strings.Contains(message, second) || !strings.Contains(message, "member update id of my-cluster-1 --peer-urls=https://own:2380.") {
		t.Errorf("the message is %q", message)
	}
	lost := asked(without(three(), third), voter(first), elsewhere, silent(third))
	decides(t, lost, membership.SetLeaving{Name: third, Leaving: true}, membership.ReplacingMember)
}

func TestAPausedClusterNamesAMemberWithoutData(t *testing.T) {
	t.Parallel()
	message := decides(t, paused(emptied(three(), second)), membership.Rest{}, membership.MemberDataLost)
	if !strings.Contains(message, second) || !strings.Contains(message, "spec.paused") {
		t.Errorf("the message is %q", message)
	}
}
