package servertest

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	corev1 "k8s.io/api/core/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// The data of a member are changed, or etcd is made to report that. Another cluster gets those of the others by the commands on the page.
func TestTheWayOutOfCorruptOnThePageIsOne(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	check := corev1.EnvVar{Name: "ETCD_CORRUPT_CHECK_TIME", Value: "1s"}
	for version, test := range map[string]struct {
		env, rescuedEnv []corev1.EnvVar
		corrupt         func(w *world, member string)
	}{
		// A member of 3.5 whose data differ does not start: the check cannot be turned off.
		"etcd35": {nil, nil, (*world).accuse},
		"etcd36": {[]corev1.EnvVar{check, {Name: "ETCD_FEATURE_GATES", Value: "InitialCorruptCheck=false"}}, []corev1.EnvVar{check}, (*world).falsify},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			home := homeOf(t, version)
			w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: 3, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true, EtcdEnv: test.env}})
			w.until("ready", w.isReady)
			if err := w.put("key", 9); err != nil {
				t.Fatal(err)
			}
			want, before := w.keys(w.names.Member(0))
			test.corrupt(w, w.names.Member(2))
			w.until("an alarm", w.hasAlarm)
			w.look()
			w.until("corrupt", w.hasReason(etcdv1beta2.ConditionReady, "Corrupt"))
			dir := w.runPage(connect, "endpoint hashkv", "snapshot save", "claimName: backups")

			spec := applied(t, dir).Spec
			spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true, EtcdEnv: test.rescuedEnv}
			rescued := newWorld(t, home, spec)
			rescued.createClaim(spec.Restore.Volume.ClaimName, dir)
			rescued.until("restored and ready", rescued.isReady)
			for ordinal := range 3 {
				got, cluster := rescued.keys(rescued.names.Member(ordinal))
				if diff := cmp.Diff(want, got); diff != "" || cluster == before {
					t.Errorf("member %d is of cluster %x, as before: %t; its data (-written +restored):\n%s", ordinal, cluster, cluster == before, diff)
				}
			}
			rescued.look()
			rescued.until("looked at", rescued.hasReason(etcdv1beta2.ConditionEtcdHealthy, "NoAlarm"))
			rescued.serves(3)
		})
	}
}

// accuse has etcd raise the alarm about a member.
func (w *world) accuse(member string) {
	w.t.Helper()
	client, err := w.client(w.t.Context(), member)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	status, err := client.Status(w.t.Context(), client.Endpoints()[0])
	if err != nil {
		w.t.Fatal(err)
	}
	request := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: etcdserverpb.AlarmType_CORRUPT}
	if _, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
}

// falsify changes a value in the database of a member.
func (w *world) falsify(member string) {
	w.t.Helper()
	w.stop(member)
	db, err := bbolt.Open(filepath.Join(w.member(member).dir, "data", "data", "member", "snap", "db"), 0o600, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		key, value := keys.Cursor().Last()
		return keys.Put(key, bytes.Replace(value, []byte("xxx"), []byte("yyy"), 1))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.resume(member)
}

func (w *world) hasAlarm(ctx context.Context) bool {
	w.t.Helper()
	client, err := w.client(ctx, w.names.Member(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	response, err := client.AlarmList(ctx)
	return err == nil && len(response.Alarms) > 0
}
