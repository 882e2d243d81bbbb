package apitest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// modes are the ways in which members get their certificates.
func modes() map[string]func(size int32) etcdv1beta2.EtcdClusterSpec {
	return map[string]func(size int32) etcdv1beta2.EtcdClusterSpec{"dynamic": of, "insecure": insecure, "static": static}
}

// begun is a cluster whose members are all ready.
func begun(t *testing.T, spec etcdv1beta2.EtcdClusterSpec) *world {
	t.Helper()
	w := newWorld(t, spec)
	if spec.TLS != nil && spec.TLS.Static != nil {
		for secret, data := range newOwnPKI(w).secrets() {
			w.put(secret, data)
		}
	}
	w.bring()
	return w
}

func inPods(spec etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec {
	spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
	return spec
}

func onClaims(spec etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec { return spec }

// turns reconciles and plays several times, and takes errors for what passes.
func (w *world) turns() {
	w.t.Helper()
	for range 10 {
		_, _ = w.try()
		w.play()
	}
}

// A backup of the cluster's resources brings EtcdClusters back without their status. The data are in pods and on claims.
func TestALostStatusCostsNoPod(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		for data, keep := range map[string]func(etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec{"in pods": inPods, "on claims": onClaims} {
			for _, size := range []int32{1, 3} {
				t.Run(fmt.Sprintf("%s, %d members, data %s", mode, size, data), func(t *testing.T) {
					t.Parallel()
					w := begun(t, keep(of(size)))
					before, ids := w.podUIDs(), w.ids()
					w.forgetStatus()
					w.restart()
					w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
						return nil, errors.New("no member answers")
					}
					w.turns()
					if after := w.podUIDs(); !maps.Equal(after, before) {
						t.Fatalf("while etcd does not answer, pods %v become %v; Ready %+v", before, after, w.condition("Ready"))
					}

					w.dial = nil
					w.turns()
					if !maps.Equal(w.podUIDs(), before) || !maps.Equal(w.ids(), ids) {
						t.Errorf("pods were %v and are %v; members were %v and are %v", before, w.podUIDs(), ids, w.ids())
					}
					if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
						t.Errorf("Ready is %+v", ready)
					}
					w.atRest()
				})
			}
		}
	}
}

// The status and the data of a member are lost at once, as when a cluster is brought back on other machines.
func TestAClusterWithoutAStatusDoesNotBeginAnew(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode+", the only volume is empty", func(t *testing.T) {
			t.Parallel()
			w := begun(t, of(1))
			w.deletePods()
			w.volumes = nil
			w.forgetStatus()
			w.restart()
			w.turns()
			if ready := w.condition("Ready"); ready.Reason != "QuorumLost" || !strings.Contains(ready.Message, "spec.restore") {
				t.Errorf("Ready is %+v", ready)
			}
			if w.etcd.Runs(first) {
				t.Error("etcd has started without data")
			}
		})
		t.Run(mode+", one volume of three is empty", func(t *testing.T) {
			t.Parallel()
			w := begun(t, of(3))
			ids := w.ids()
			delete(w.volumes, w.volumeOf(w.pod(first)))
			w.deletePods()
			w.forgetStatus()
			w.restart()
			w.bring()
			after := w.ids()
			if after[first] == ids[first] || after[second] != ids[second] || after[third] != ids[third] {
				t.Errorf("members were %v and are %v", ids, after)
			}
		})
	}
}

func TestAnEphemeralClusterWithoutStatusAndPodsDoesNotBeginAnew(t *testing.T) {
	t.Parallel()
	w := begun(t, inPods(of(1)))
	w.deletePods()
	w.forgetStatus()
	w.restart()
	if message := w.until("QuorumLost"); !strings.Contains(message, "delete this EtcdCluster and create it again") {
		t.Errorf("the message is %q", message)
	}
	if pods := w.pods(); len(pods) > 0 {
		t.Errorf("%d pods were created", len(pods))
	}
}

// An earlier cluster of the name was of another kind: its members would lose their data or not find each other.
func TestWhatAClusterOfAnotherSpecHasLeftIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to etcdv1beta2.EtcdClusterSpec
		lose     func(w *world)
		field    string
	}{
		"pods with data become those on claims": {inPods(of(1)), of(1), func(*world) {}, "spec.pod.ephemeral"},
		"claims of an ephemeral cluster":        {of(1), inPods(of(1)), (*world).deletePods, "spec.pod.ephemeral"},
		"pods with claims become ephemeral":     {of(3), inPods(of(3)), func(*world) {}, "spec.pod.ephemeral"},
		"TLS is taken away":                     {of(3), insecure(3), func(*world) {}, "spec.TLS"},
		"TLS is added":                          {insecure(3), of(3), func(*world) {}, "spec.TLS"},
		"TLS is taken away from claims":         {of(1), insecure(1), (*world).deletePods, "spec.TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, test.from)
			w.leave()
			test.lose(w)
			pods, claims, ids := w.podUIDs(), w.claimUIDs(), map[string]bool{}
			for _, id := range w.volumes {
				ids[fmt.Sprintf("%x", id)] = true
			}
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: test.to})
			w.restart()
			message := w.until("SpecDiffers")
			if !strings.Contains(message, test.field) || !strings.Contains(message, "--cascade=orphan") {
				t.Errorf("the message is %q", message)
			}
			w.turns()
			if !maps.Equal(w.podUIDs(), pods) || !maps.Equal(w.claimUIDs(), claims) {
				t.Fatalf("pods and claims are %v %v, and were %v %v", w.podUIDs(), w.claimUIDs(), pods, claims)
			}

			w.leave()
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: test.from})
			w.restart()
			w.bring()
			for member, id := range w.ids() {
				if !ids[id] {
					t.Errorf("member %s is %s, and was one of %v", member, id, ids)
				}
			}
		})
	}
}

// leave deletes the cluster, and nothing that it owns.
func (w *world) leave() {
	w.t.Helper()
	w.orphan()
	w.collect()
	w.reconcile()
}

func TestAPodWithoutItsLabelsGetsThemBack(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]etcdv1beta2.EtcdClusterSpec{"data in the only pod": inPods(of(1)), "data in pods": inPods(of(3)), "data on claims": of(3)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, spec)
			pods, ids, labels := w.podUIDs(), w.ids(), w.pod(first).Labels
			w.patch(w.pod(first), merge(`{"metadata": {"labels": {%q: null, %q: null}}}`, model.ManagedByLabel, model.ClusterLabel))
			w.turns()
			if !maps.Equal(w.podUIDs(), pods) || !maps.Equal(w.ids(), ids) {
				t.Fatalf("pods were %v and are %v, members %v", pods, w.podUIDs(), w.ids())
			}
			if got := w.pod(first).Labels; !maps.Equal(got, labels) {
				t.Errorf("labels are %v, and were %v", got, labels)
			}
			w.atRest()
		})
	}
}

func TestARestoreThatIsNotCarriedOutIsSaid(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){"pods are left": func(*world) {}, "claims are left": (*world).deletePods} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, of(3))
			ids := w.ids()
			w.leave()
			lose(w)
			spec := of(3)
			spec.Restore = new(fromVolume())
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: spec})
			w.restart()
			w.bring()
			if !maps.Equal(w.ids(), ids) {
				t.Errorf("members were %v and are %v", ids, w.ids())
			}
			if ignored := w.condition(etcdv1beta2.ConditionFieldsIgnored); !strings.Contains(ignored.Message, "spec.restore") {
				t.Errorf("FieldsIgnored is %+v", ignored)
			}
			if !w.told("RestoreSkipped") {
				t.Error("there is no event")
			}
			w.atRest()
		})
	}
}

// A webhook may add containers to a pod, which end as they like.
func TestAnotherContainerDoesNotSayThatAVolumeIsEmpty(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	before := w.ids()
	pod := w.pod(second)
	w.reportEmptied(pod)
	pod = w.pod(second)
	pod.Status.ContainerStatuses[0].Name = "sidecar"
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: model.EtcdContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
	if err := w.kubelet.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.turns()
	if !maps.Equal(before, w.ids()) {
		t.Errorf("members were %v and are %v", before, w.ids())
	}
}
