package servertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// The only member has no other to get its data from: etcd is not started, and nothing is deleted.
func TestTheOnlyMemberDoesNotServeFromAnEmptyVolume(t *testing.T) {
	t.Parallel()
	for _, home := range homes(t) {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: 1, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true}})
			w.until("ready", w.isReady)
			w.serves(1)
			const only = "my-cluster-0"
			before := w.uid(only)
			w.wipe(only, w.keepMachine)
			w.until("the member is said to have lost its data", func(ctx context.Context) bool { return w.reason(ctx) == "QuorumLost" })
			w.wipe(only, w.remake)
			w.until("it is said of another machine, too", func(ctx context.Context) bool { return w.reason(ctx) == "QuorumLost" })
			if client, err := w.client(t.Context(), only); err == nil {
				ctx, cancel := context.WithTimeout(t.Context(), answerLimit)
				defer cancel()
				if got, err := client.Put(ctx, "fork", "yes"); err == nil {
					t.Errorf("etcd takes a write on an empty volume: %+v", got)
				}
				_ = client.Close()
			}
			if w.uid(only) != before {
				t.Error("the pod was deleted")
			}
		})
	}
}

// Each of three members loses its volume under its pod, the one that the cluster began with first.
func TestAMemberThatLosesItsVolumeUnderItsPodIsReplaced(t *testing.T) {
	t.Parallel()
	for _, home := range homes(t) {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: 3, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true}})
			w.until("ready", w.isReady)
			w.serves(3)
			cluster := w.clusterID()
			for ordinal, lose := range []func(*member){w.keepMachine, w.remake} {
				name := w.names.Member(ordinal)
				before := w.id(name)
				w.wipe(name, lose)
				w.until(fmt.Sprintf("%s is replaced", name), func(ctx context.Context) bool {
					return w.isReady(ctx) && w.id(name) != before && w.id(name) != ""
				})
				w.serves(3)
			}
			if now := w.clusterID(); now != cluster {
				t.Errorf("the cluster is %x, and was %x", now, cluster)
			}
		})
	}
}

// wipe ends the container of a pod and empties its volume. The kubelet starts another container in the same pod.
func (w *world) wipe(pod string, lose func(*member)) {
	w.t.Helper()
	m := w.member(pod)
	m.running.Lock()
	defer m.running.Unlock()
	if m.cancel != nil {
		m.cancel()
		<-m.stopped
		m.cancel = nil
	}
	m.message = ""
	lose(m)
}

// keepMachine empties the volume alone.
func (w *world) keepMachine(m *member) { w.removeAll(filepath.Join(m.dir, "data")) }

// remake makes the machine of a member anew: all that was in the pod is gone, and mounted again.
func (w *world) remake(m *member) {
	for _, dir := range []string{"data", "run", "pod", "node"} {
		w.removeAll(filepath.Join(m.dir, dir))
	}
	m.mounted = ""
}

func (w *world) removeAll(dir string) {
	w.t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		w.t.Fatal(err)
	}
}

func homes(t *testing.T) []string {
	t.Helper()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	return filepath.SplitList(os.Getenv(etcdHomes))
}

func (w *world) reason(ctx context.Context) string {
	w.t.Helper()
	if ready := apimeta.FindStatusCondition(w.status(ctx).Conditions, etcdv1beta2.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// clusterID is the id of the cluster that all members say they are of.
func (w *world) clusterID() uint64 {
	w.t.Helper()
	var id uint64
	for _, status := range w.status(w.t.Context()).MemberStatuses {
		client, err := w.client(w.t.Context(), status.Name)
		if err != nil {
			w.t.Fatal(err)
		}
		response, err := client.Get(w.t.Context(), "anything", clientv3.WithSerializable())
		_ = client.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		if id != 0 && id != response.Header.ClusterId {
			w.t.Errorf("%s is of cluster %x, and another member of %x", status.Name, response.Header.ClusterId, id)
		}
		id = response.Header.ClusterId
	}
	return id
}
