package controller

import (
	stdcmp "cmp"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/publication"
)

func noon() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

func waitingIn(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func podCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(noon())}
}

func TestPodOf(t *testing.T) {
	t.Parallel()
	made, asked := noon().Add(-time.Hour), noon().Add(-time.Minute)
	ready := podCondition(corev1.PodReady, corev1.ConditionTrue, "")
	unready := podCondition(corev1.PodReady, corev1.ConditionFalse, "")
	for name, c := range map[string]struct {
		status  corev1.PodStatus
		deleted bool
		want    rollout.Pod
	}{
		"ready": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready}},
			want:   rollout.Pod{State: rollout.Ready, Since: noon()},
		},
		"not ready": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{unready}},
			want:   rollout.Pod{State: rollout.Unready, Since: noon()},
		},
		"not yet seen by a kubelet": {
			want: rollout.Pod{State: rollout.Unready, Since: made},
		},
		"terminating, ready or not": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready}}, deleted: true,
			want: rollout.Pod{State: rollout.Terminating, Since: asked},
		},
		"terminating and stuck is terminating": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waitingIn("CrashLoopBackOff")}}, deleted: true,
			want: rollout.Pod{State: rollout.Terminating, Since: asked},
		},
		"a container that crashes again and again": {
			status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{unready}, ContainerStatuses: []corev1.ContainerStatus{waitingIn("CrashLoopBackOff")},
			},
			want: rollout.Pod{State: rollout.Stuck, StuckReason: "CrashLoopBackOff", Since: noon()},
		},
		"an image of the init container that is not there": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{waitingIn("ImagePullBackOff")},
				ContainerStatuses:     []corev1.ContainerStatus{waitingIn("PodInitializing")},
			},
			want: rollout.Pod{State: rollout.Stuck, StuckReason: "ImagePullBackOff", Since: made},
		},
		"a container that is being made": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waitingIn("ContainerCreating")}},
			want:   rollout.Pod{State: rollout.Unready, Since: made},
		},
		"no node has room for it": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable),
			}},
			want: rollout.Pod{State: rollout.Stuck, StuckReason: "Unschedulable", Since: made},
		},
		"the scheduler has not looked at it yet": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated),
			}},
			want: rollout.Pod{State: rollout.Unready, Since: made},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod", CreationTimestamp: metav1.NewTime(made)}, Status: c.status}
			if c.deleted {
				pod.DeletionTimestamp = new(metav1.NewTime(asked))
			}
			c.want.UID = "pod"
			if diff := cmp.Diff(c.want, podOf(pod)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodThatPresentsEndedCertificatesToOtherNodesIsStuck(t *testing.T) {
	t.Parallel()
	ended, valid := publication.RoleReport{NotAfter: noon()}, publication.RoleReport{NotAfter: noon().Add(time.Second)}
	const client publication.Role = "tls-9093"
	for name, c := range map[string]struct {
		roles  map[publication.Role]publication.RoleReport
		ready  corev1.ConditionStatus
		silent bool
		// lasts is how long the stored certificate does; an hour when it is not said.
		lasts time.Duration
		want  rollout.PodState
	}{
		"all that it presents to them has ended": {
			roles: map[publication.Role]publication.RoleReport{contract.ControlPlaneListener: ended, contract.ReplicationListener: ended, client: valid},
			want:  rollout.Stuck,
		},
		"of a broker":                  {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: ended}, want: rollout.Stuck},
		"nothing has ended":            {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: valid}, want: rollout.Ready},
		"one listener has been left":   {roles: map[publication.Role]publication.RoleReport{contract.ControlPlaneListener: valid, contract.ReplicationListener: ended}, want: rollout.Ready},
		"a listener of clients":        {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: valid, client: ended}, want: rollout.Ready},
		"its end is not known":         {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: {}}, want: rollout.Ready},
		"the server does not run":      {want: rollout.Ready},
		"its agent is silent":          {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: ended}, silent: true, want: rollout.Ready},
		"its Secret has no better one": {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: ended}, lasts: -time.Second, want: rollout.Ready},
		"it is starting":               {roles: map[publication.Role]publication.RoleReport{contract.ReplicationListener: ended}, ready: corev1.ConditionFalse, want: rollout.Unready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				podCondition(corev1.PodReady, stdcmp.Or(c.ready, corev1.ConditionTrue), ""),
			}}}
			p := begin(&observation{now: noon(), pods: map[string]*corev1.Pod{"my-0": pod}}, &memory{})
			p.reports = map[string]agentReport{"my-0": {known: !c.silent, report: publication.Report{Roles: c.roles}}}
			p.nodes = map[string]nodeCertificates{"my-0": {leaf: &x509.Certificate{NotAfter: noon().Add(stdcmp.Or(c.lasts, time.Hour))}}}
			got := p.rolled("my-0")
			if got.State != c.want || (got.StuckReason != "") != (c.want == rollout.Stuck) {
				t.Errorf("the pod is %+v, want state %d", got, c.want)
			}
		})
	}
}

func TestAPodThatIsNotThereIsMissing(t *testing.T) {
	t.Parallel()
	if got := podOf(nil); got != (rollout.Pod{State: rollout.Missing}) {
		t.Errorf("pod is %+v, want a missing one", got)
	}
}
