package scenarios

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

const (
	// quota is that of the database of each member, in bytes.
	quota = 32 << 20
	// noticed is how long an alarm, and its end, may stay unnoticed.
	noticed = time.Minute
)

var errNotFull = errors.New("the quota was not reached")

// etcdOutOfSpace fills the databases until etcd rejects writes, and frees them as the page says.
func etcdOutOfSpace(s *stage) {
	m := s.members(3, "3.6.16", harness.EtcdEnv("ETCD_QUOTA_BACKEND_BYTES", strconv.Itoa(quota)))
	containers, err := m.etcd.Containers(s.ctx)
	s.must(err)
	s.step("written", func() error { return m.write() })
	s.step("filled", func() error { return m.fill() })
	m.within("out of space", func(status etcdv1beta2.EtcdClusterStatus) bool {
		healthy := meta.FindStatusCondition(status.Conditions, etcdv1beta2.ConditionEtcdHealthy)
		return harness.IsHeldBy(status, "NoSpace") && healthy != nil && healthy.Status == metav1.ConditionFalse && m.namesOne(healthy.Message)
	})
	s.step("reads are answered, and writes are rejected", func() error {
		if err := m.write(); !errors.Is(err, rpctypes.ErrNoSpace) {
			s.Errorf("a write ended with %v", err)
		}
		return m.read()
	})

	s.step("freed", func() error { return m.free() })
	m.within("space again", harness.IsReady)
	s.step("all serve", func() error { return serve(s.ctx, m.etcd, m.allVote(m.etcd, 3)) })
	if now, err := m.etcd.Containers(s.ctx); err != nil || !maps.Equal(now, containers) {
		s.Errorf("containers were %v and are %v: %v", containers, now, err)
	}
	s.step("deleted", func() error { return m.etcd.Delete(s.ctx) })
}

// namesOne reports whether a message has the name of a member.
func (m *memberScenario) namesOne(message string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(m.ids)), func(member string) bool { return strings.Contains(message, member) })
}

// within waits until the status says something, which takes no longer than noticed.
func (m *memberScenario) within(what string, says func(etcdv1beta2.EtcdClusterStatus) bool) {
	m.Helper()
	begun := time.Now()
	m.step(what+" is reported", func() error { return m.etcd.UntilStatus(m.ctx, says) })
	m.figure(report.AtMost(what+" reported", time.Since(begun).Seconds(), noticed.Seconds(), "s", "until the status of the EtcdCluster has it"))
}

// fill writes one key until etcd accepts no more.
func (m *memberScenario) fill() error {
	const size = 1 << 20
	value := strings.Repeat("x", size)
	for range 2 * quota / size {
		err := as(m.ctx, m.etcd, clusterName+"-0", func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Put(ctx, "filled", value)
			return err
		})
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errNotFull
}

// free compacts the keys, defragments one member after the other, and disarms all alarms.
func (m *memberScenario) free() error {
	return as(m.ctx, m.etcd, clusterName+"-0", func(ctx context.Context, client *clientv3.Client) error {
		present, err := client.Get(ctx, writtenKey)
		if err != nil {
			return err
		}
		if _, err := client.Compact(ctx, present.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
			return err
		}
		for _, member := range slices.Sorted(maps.Keys(m.ids)) {
			if err := as(ctx, m.etcd, member, func(ctx context.Context, client *clientv3.Client) error {
				_, err := client.Defragment(ctx, client.Endpoints()[0])
				return err
			}); err != nil {
				return err
			}
		}
		_, err = client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
}
