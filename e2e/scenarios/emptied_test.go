package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"

	clientv3 "go.etcd.io/etcd/client/v3"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
)

var errForked = errors.New("a member without its data takes writes")

// etcdVolumeEmptied empties volumes under pods that stay: of three members under load, and of the only one.
func etcdVolumeEmptied(s *stage) {
	for _, version := range []string{"3.5.35", "3.6.16"} {
		m := s.members(3, version)
		s.underEtcdLoad(m.etcd)
		for _, member := range []string{clusterName + "-0", clusterName + "-1"} {
			m.after(fmt.Sprintf("the volume of %s is emptied with etcd %s", member, version), func() error { return m.etcd.EmptyVolume(s.ctx, member) })
			m.other(member)
		}
		m.witness()
		s.step("deleted", func() error { return m.etcd.Delete(s.ctx) })
		m.onlyVolumeEmptied(version)
	}
}

// onlyVolumeEmptied holds that a cluster of one that has lost its data serves nothing, and that nothing of it is deleted.
func (m *memberScenario) onlyVolumeEmptied(version string) {
	m.Helper()
	m.step("one member with etcd "+version, func() error {
		if err := m.etcd.Create(m.ctx, 1, harness.Version(version)); err != nil {
			return err
		}
		return m.etcd.UntilReady(m.ctx)
	})
	const only = clusterName + "-0"
	pods, err := m.etcd.Pods(m.ctx)
	m.must(err)
	claims, err := m.etcd.Claims(m.ctx)
	m.must(err)
	m.step("its volume is emptied", func() error {
		if err := m.write(); err != nil {
			return err
		}
		if err := m.etcd.EmptyVolume(m.ctx, only); err != nil {
			return err
		}
		return m.etcd.UntilStatus(m.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool { return harness.IsHeldBy(status, "QuorumLost") })
	})
	m.must(harness.Let(m.ctx, harness.Quiet))
	if err := as(m.ctx, m.etcd, only, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, "scenario/fork", "yes")
		return err
	}); err == nil {
		m.Error(errForked)
	}
	nowPods, err := m.etcd.Pods(m.ctx)
	m.must(err)
	nowClaims, err := m.etcd.Claims(m.ctx)
	m.must(err)
	if !maps.Equal(pods, nowPods) || !maps.Equal(claims, nowClaims) {
		m.Errorf("pods are %v and claims %v, and were %v and %v", nowPods, nowClaims, pods, claims)
	}
	m.step("deleted", func() error { return m.etcd.Delete(m.ctx) })
}
