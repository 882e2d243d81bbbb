package servertest

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// quota is that of the database of each member, in bytes.
const quota = 32 << 20

// A cluster is filled until it accepts no writes, and freed by the commands on the page.
func TestTheWayOutOfNoSpaceOnThePageIsOne(t *testing.T) {
	t.Parallel()
	for _, home := range homes(t) {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, home, limited(3))
			w.until("ready", w.isReady)
			w.look()
			w.until("looked at", w.hasReason(etcdv1beta2.ConditionEtcdHealthy, "NoAlarm"))
			w.fill(quota * 85 / 100)
			w.look()
			w.until("the quota is nearly used", w.hasReason(etcdv1beta2.ConditionEtcdHealthy, "QuotaNearlyUsed"))
			w.fill(2 * quota)
			w.look()
			w.until("out of space", w.hasReason(etcdv1beta2.ConditionReady, "NoSpace"))
			files := w.copied("full.db")
			w.runPage(connect, "etcdctl compact")
			if err := w.put("freed", 1); err != nil {
				t.Errorf("after the commands of the page: %v", err)
			}
			w.look()
			w.until("ready again", w.isReady)
			if healthy := w.condition(t.Context(), etcdv1beta2.ConditionEtcdHealthy); healthy != "NoAlarm" {
				t.Errorf("EtcdHealthy has the reason %s", healthy)
			}
			raisesAgain(t, home, files)
		})
	}
}

// limited is a cluster with the quota.
func limited(size int32) etcdv1beta2.EtcdClusterSpec {
	return etcdv1beta2.EtcdClusterSpec{Size: size, Pod: &etcdv1beta2.PodPolicy{
		Ephemeral: true, EtcdEnv: []corev1.EnvVar{{Name: "ETCD_QUOTA_BACKEND_BYTES", Value: strconv.Itoa(quota)}},
	}}
}

// copied is a directory with a snapshot of the first member.
func (w *world) copied(name string) string {
	w.t.Helper()
	client, err := w.client(w.t.Context(), w.names.Member(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	source, err := client.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	store(w.t, source, filepath.Join(dir, name))
	return dir
}

// raisesAgain holds that a cluster that is restored from a full database is ready until writes raise the alarm again.
func raisesAgain(t *testing.T, home, files string) {
	t.Helper()
	spec := limited(1)
	spec.Restore = &etcdv1beta2.RestoreSource{Volume: &etcdv1beta2.RestoreVolume{ClaimName: "backups", Path: "full.db"}}
	w := newWorld(t, home, spec)
	w.createClaim("backups", files)
	w.until("restored and ready", w.isReady)
	w.fill(2 * quota)
	w.look()
	w.until("out of space again", w.hasReason(etcdv1beta2.ConditionReady, "NoSpace"))
}

func (w *world) hasReason(condition, reason string) func(context.Context) bool {
	return func(ctx context.Context) bool { return w.condition(ctx, condition) == reason }
}

// condition is the reason of a condition.
func (w *world) condition(ctx context.Context, name string) string {
	w.t.Helper()
	if condition := apimeta.FindStatusCondition(w.status(ctx).Conditions, name); condition != nil {
		return condition.Reason
	}
	return ""
}

// fill writes a key again and again until the database has a size, or etcd accepts no more.
func (w *world) fill(size int64) {
	w.t.Helper()
	client, err := w.client(w.t.Context(), w.names.Member(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for {
		status, err := client.Status(w.t.Context(), client.Endpoints()[0])
		if err != nil {
			w.t.Fatal(err)
		}
		if status.DbSize >= size {
			return
		}
		if err := w.put("filled", 256<<10); errors.Is(err, rpctypes.ErrNoSpace) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) put(key string, size int) error {
	client, err := w.client(w.t.Context(), w.names.Member(0))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = client.Put(w.t.Context(), key, strings.Repeat("x", size))
	return err
}
