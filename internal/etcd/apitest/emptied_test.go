package apitest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// empty takes the data of a member away while its pod and its claim stay.
func (w *world) empty(member string) {
	w.t.Helper()
	delete(w.volumes, w.volumeOf(w.pod(member)))
	w.etcd.Stop(w.t, member)
}

// volumeOf is the volume of a pod: its claim, or the pod itself.
func (w *world) volumeOf(pod *corev1.Pod) types.UID {
	w.t.Helper()
	for _, claim := range w.claims() {
		if claim.Labels[model.MemberLabel] == pod.Name {
			return claim.UID
		}
	}
	return pod.UID
}

func kinds(t *testing.T) map[string]func(size int32) *world {
	ephemeral := func(size int32) etcdv1beta2.EtcdClusterSpec {
		spec := of(size)
		spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
		return spec
	}
	return map[string]func(size int32) *world{
		"with signed certificates": func(size int32) *world { return newWorld(t, of(size)) },
		"ephemeral":                func(size int32) *world { return newWorld(t, ephemeral(size)) },
		"insecure":                 func(size int32) *world { return newWorld(t, insecure(size)) },
		"static": func(size int32) *world {
			w, _ := newStatic(t, size)
			return w
		},
	}
}

func TestTheOnlyMemberWithAnEmptyVolumeIsNamedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kinds(t)[name](1)
			w.bring()
			before := w.pod(first).UID
			w.empty(first)
			message := w.until("QuorumLost")
			if !strings.Contains(message, first) || !strings.Contains(message, "spec.restore") {
				t.Errorf("the message is %q", message)
			}
			w.writer.Sent = 0
			for range 3 {
				w.reconcile()
			}
			if w.writer.Sent > 0 {
				t.Errorf("%d writes although nothing has changed", w.writer.Sent)
			}
			if w.pod(first).UID != before {
				t.Error("its pod was deleted")
			}
			if !w.told("QuorumLost") {
				t.Error("there is no event")
			}
		})
	}
}

func TestAMemberWithAnEmptyVolumeIsReplaced(t *testing.T) {
	t.Parallel()
	for name := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kinds(t)[name](3)
			w.bring()
			for _, member := range []string{first, third} {
				before := w.ids()[member]
				w.empty(member)
				w.until("ReplacingMember")
				w.bringSafely()
				if after := w.ids()[member]; after == before || after == "" {
					t.Errorf("%s has id %q, and had %q", member, after, before)
				}
			}
		})
	}
}

func TestMembersWithEmptyVolumesAreLeftAloneWhenTheOthersAreNoQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	claims := w.claimNames()
	w.empty(first)
	w.empty(second)
	message := w.until("QuorumLost")
	if !strings.Contains(message, first) || !strings.Contains(message, second) || strings.Contains(message, third) {
		t.Errorf("the message is %q", message)
	}
	if pods := w.pods(); len(pods) != 3 || len(w.claimNames()) != len(claims) {
		t.Errorf("%d pods and claims %v are left", len(pods), w.claimNames())
	}
}

// A volume whose data comes back, as from another machine, is what its member goes on with.
func TestAMemberWhoseDataComesBackIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	volume := w.volumeOf(w.pod(first))
	data := w.volumes[volume]
	w.empty(first)
	w.until("QuorumLost")
	w.volumes[volume] = data
	w.bring()
	if got := w.ids()[first]; got != "1" {
		t.Errorf("the member has id %s", got)
	}
}

// The answer of a member that serves counts more than what is written in the status of its pod.
func TestAMemberThatServesIsNotReplacedForAReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.ids()
	pod := w.pod(second)
	w.reportEmptied(pod)
	w.etcd.Start(t, second, flagOf(pod, "--initial-advertise-peer-urls"))
	for range 5 {
		w.reconcile()
	}
	if after := w.ids(); after[second] != before[second] || w.pod(second).UID != pod.UID {
		t.Errorf("the member was replaced: %v, and was %v", after, before)
	}
}
