package servertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// Members without volumes: each one that is lost or upgraded is removed from etcd and joins again.
func TestMembersAreReplacedUpgradedAndRemoved(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	w := newWorld(t, homeOf(t, "etcd35"), etcdv1beta2.EtcdClusterSpec{
		Size: 3, Version: "3.5.35", Pod: &etcdv1beta2.PodPolicy{Ephemeral: true},
	})
	w.homes = map[string]string{"3.6.16": homeOf(t, "etcd36")}
	w.until("ready", w.isReady)
	w.serves(3)
	const lost = "my-cluster-1"
	before := w.id(lost)
	if err := w.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: lost}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	w.until("replaced", func(ctx context.Context) bool { return w.isReady(ctx) && w.id(lost) != before && w.id(lost) != "" })
	w.serves(3)
	w.change(`{"spec": {"version": "3.6.16"}}`)
	w.until("upgraded", func(ctx context.Context) bool { return w.isReady(ctx) && w.status(ctx).CurrentVersion == "3.6.16" })
	w.serves(3)
	w.change(`{"spec": {"size": 1}}`)
	w.until("one member", func(ctx context.Context) bool { return w.isReady(ctx) && len(w.status(ctx).MemberStatuses) == 1 })
	w.serves(1)
}

// A person has used etcdctl member update. The member is not one that the operator did not add.
func TestAMemberWithAnotherPeerURLIsNamedUntilItIsSetBack(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	w := newWorld(t, homeOf(t, "etcd36"), etcdv1beta2.EtcdClusterSpec{Size: 3, Version: "3.6.16"})
	w.until("ready", w.isReady)
	const moved = "my-cluster-2"
	before := w.id(moved)
	own := w.setPeerURLs(moved, []string{"https://elsewhere:2380"})
	w.look()
	w.until("named", w.hasReason(etcdv1beta2.ConditionReady, "PeerURLChanged"))
	w.setPeerURLs(moved, own)
	w.look()
	w.until("ready again", w.isReady)
	w.serves(3)
	if after := w.id(moved); after != before {
		t.Errorf("member %s was %s and is %s", moved, before, after)
	}
}

// setPeerURLs changes the peer URLs of a member as etcdctl member update does, and returns those before.
func (w *world) setPeerURLs(member string, urls []string) []string {
	w.t.Helper()
	connected, err := w.client(w.t.Context(), member)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = connected.Close() }() // nothing is written by it
	list, err := connected.MemberList(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, each := range list.Members {
		if each.Name != member {
			continue
		}
		if _, err := connected.MemberUpdate(w.t.Context(), each.ID, urls); err != nil {
			w.t.Fatal(err)
		}
		return each.PeerURLs
	}
	w.t.Fatalf("etcd has no member %s", member)
	return nil
}

// homeOf is the folder of one version.
func homeOf(t *testing.T, version string) string {
	t.Helper()
	for _, home := range filepath.SplitList(os.Getenv(etcdHomes)) {
		if strings.HasPrefix(filepath.Base(home), version) {
			return home
		}
	}
	t.Fatalf("$%s names no folder of %s", etcdHomes, version)
	return ""
}

func (w *world) id(member string) string {
	w.t.Helper()
	for _, status := range w.status(w.t.Context()).MemberStatuses {
		if status.Name == member {
			return status.MemberID
		}
	}
	return ""
}

func (w *world) uid(name string) types.UID {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod.UID
}

func (w *world) change(patch string) {
	w.t.Helper()
	resource := &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: cluster}}
	if err := w.api.Patch(w.t.Context(), resource, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}
