package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
)

const restoreContainer = "keyturn-restore"

// restore runs the container of a pod that restores, if it has one.
func (w *world) restore(ctx context.Context, m *member, pod *corev1.Pod, options etcdagent.Options) error {
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == restoreContainer })
	if at < 0 {
		return nil
	}
	command := pod.Spec.InitContainers[at].Command
	end := slices.Index(command, "--")
	r := etcdagent.Restore{Options: options, Volume: w.files}
	r.Command, r.ResultPath = w.local(m, w.homeOf(pod), command[end+1:]), filepath.Join(m.dir, "restored")
	r.Command[0] = filepath.Join(w.homeOf(pod), "etcdutl")
	for _, flag := range command[:end] {
		if path, is := strings.CutPrefix(flag, "--path="); is {
			r.Path = path
		}
	}
	return r.Run(ctx)
}

// restored is what a kubelet says of the container that restores.
func (m *member) restored() []corev1.ContainerStatus {
	text, err := os.ReadFile(filepath.Join(m.dir, "restored"))
	if err != nil {
		return nil
	}
	return []corev1.ContainerStatus{{Name: restoreContainer, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: string(text)},
	}}}
}

// keys are all keys with their values and revisions, and the id of the cluster.
func (w *world) keys(member string) (keys map[string]string, cluster uint64) {
	w.t.Helper()
	client, err := w.client(w.t.Context(), member)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	response, err := client.Get(w.t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	keys = map[string]string{}
	for _, pair := range response.Kvs {
		keys[string(pair.Key)] = fmt.Sprintf("%s, %d %d %d, lease %x", pair.Value, pair.CreateRevision, pair.ModRevision, pair.Version, pair.Lease)
	}
	return keys, response.Header.GetClusterId()
}

// save writes keys and a lease, and a snapshot of them as a file.
func (w *world) save(path string) {
	w.t.Helper()
	client, err := w.client(w.t.Context(), w.names.Member(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	lease, err := client.Grant(w.t.Context(), 3600)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range 20 {
		key := fmt.Sprintf("key/%d", i%7)
		if _, err := client.Put(w.t.Context(), key, fmt.Sprint(i), clientv3.WithLease(lease.ID)); err != nil {
			w.t.Fatal(err)
		}
	}
	source, err := client.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	store(w.t, source, path)
}

// store writes all of a source to a file.
func store(t *testing.T, source io.ReadCloser, path string) {
	t.Helper()
	data, err := io.ReadAll(source)
	if err = errors.Join(err, source.Close(), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Another cluster has the data and serves. Its first member is not restored again when it loses its volume: it gets the
// data of the others, which are newer.
func TestAClusterBeginsWithTheDataOfAnother(t *testing.T) {
	t.Parallel()
	for _, home := range homes(t) {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			files := t.TempDir()
			lost := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: 1, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true}})
			lost.until("ready", lost.isReady)
			lost.save(filepath.Join(files, "once.db"))
			want, before := lost.keys(lost.names.Member(0))

			w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: 3, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true}, Restore: &etcdv1beta2.RestoreSource{
				Volume: &etcdv1beta2.RestoreVolume{ClaimName: "backups", Path: "once.db"},
			}})
			w.createClaim("backups", files)
			w.until("restored and ready", w.isReady)
			for ordinal := range 3 {
				got, cluster := w.keys(w.names.Member(ordinal))
				if diff := cmp.Diff(want, got); diff != "" || cluster == before {
					t.Errorf("member %d is of cluster %x, as before: %t; its data (-written +restored):\n%s", ordinal, cluster, cluster == before, diff)
				}
			}
			if restored := w.status(t.Context()).Restored; restored == nil || restored.ClaimName != "backups" || restored.Path != "once.db" || restored.Revision < 20 {
				t.Errorf("the status says that %+v was restored", restored)
			}
			w.serves(3)
			newer, _ := w.keys(w.names.Member(1))
			first := w.names.Member(0)
			id := w.id(first)
			w.wipe(first, w.remake)
			w.until("the first member is replaced", func(ctx context.Context) bool { return w.isReady(ctx) && w.id(first) != id && w.id(first) != "" })
			if got, _ := w.keys(first); !cmp.Equal(newer, got) {
				t.Errorf("its data are not those of the others (-others +first):\n%s", cmp.Diff(newer, got))
			}
		})
	}
}

// createClaim creates a claim of a volume that is a folder. The operator creates no pod before there is one.
func (w *world) createClaim(name, files string) {
	w.t.Helper()
	w.files = files
	if err := w.api.Create(w.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}); err != nil {
		w.t.Fatal(err)
	}
}
