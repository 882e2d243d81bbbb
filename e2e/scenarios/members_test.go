package scenarios

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// etcdMembersLost has members lose their pods and their data. What can come back does, and a
// quorum that is lost deletes nothing.
func etcdMembersLost(s *stage) {
	m := s.members(3, "3.6.16")
	first, second, third := clusterName+"-0", clusterName+"-1", clusterName+"-2"
	s.step("one pod may be evicted", func() error { return m.etcd.UntilEvictable(s.ctx, 1) })
	s.underEtcdLoad(m.etcd)
	m.after("a pod is deleted by hand", func() error { return m.etcd.DeletePods(s.ctx, second) })
	m.same(first, second, third)
	m.after("a member loses its pod and its data", func() error {
		if err := m.etcd.DeleteClaims(s.ctx, third); err != nil {
			return err
		}
		return m.etcd.DeletePods(s.ctx, third)
	})
	m.same(first, second)
	m.other(third)
	m.withoutDNS(second)
	m.same(first, second, third)
	m.witness()

	claims, err := m.etcd.Claims(s.ctx)
	s.must(err)
	s.step("what is written", func() error { return m.write() })
	m.after("all pods are deleted at once", func() error { return m.etcd.DeletePods(s.ctx, first, second, third) })
	m.same(first, second, third)
	s.step("is read again", func() error { return m.read() })
	if now, err := m.etcd.Claims(s.ctx); err != nil || !maps.Equal(now, claims) {
		s.Errorf("claims were %v and are %v: %v", claims, now, err)
	}
	m.quorumLost(claims, first, second, third)
	s.step("deleted", func() error { return m.etcd.Delete(s.ctx) })
}

// withoutDNS deletes the pod of a member while no DNS server runs: it is created again, the status says what it waits
// for, and it comes back with DNS.
func (m *memberScenario) withoutDNS(member string) {
	m.Helper()
	back, err := m.kube.StopDNS(m.ctx)
	m.must(err)
	started := false
	m.Cleanup(func() {
		if !started {
			m.must(back())
		}
	})
	before, err := m.etcd.Pods(m.ctx)
	m.must(err)
	m.step("a pod is deleted while DNS is away", func() error {
		if err := m.etcd.DeletePods(m.ctx, member); err != nil {
			return err
		}
		return m.etcd.UntilStatus(m.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
			ready := meta.FindStatusCondition(status.Conditions, etcdv1beta2.ConditionReady)
			return ready != nil && ready.Status == metav1.ConditionFalse && strings.Contains(ready.Message, member) && strings.Contains(ready.Message, "DNS")
		})
	})
	now, err := m.etcd.Pods(m.ctx)
	m.must(err)
	if now[member] == before[member] || now[member] == "" {
		m.Errorf("the pod of %s was %s and is %q", member, before[member], now[member])
	}
	m.step("DNS is back, and the member", func() error {
		started = true
		if err := back(); err != nil {
			return err
		}
		return m.etcd.UntilStatus(m.ctx, harness.IsReady)
	})
	m.observe()
}

// quorumLost takes the data of all members but one, and holds that nothing of that one goes.
func (m *memberScenario) quorumLost(claims map[string]types.UID, left string, lost ...string) {
	m.Helper()
	before, err := m.etcd.Pods(m.ctx)
	m.must(err)
	m.step("the quorum is lost", func() error {
		if err := m.etcd.DeleteClaims(m.ctx, lost...); err != nil {
			return err
		}
		if err := m.etcd.DeletePods(m.ctx, lost...); err != nil {
			return err
		}
		return m.etcd.UntilStatus(m.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool { return harness.IsHeldBy(status, "QuorumLost") })
	})
	m.must(harness.Let(m.ctx, harness.Quiet))
	pods, err := m.etcd.Pods(m.ctx)
	m.must(err)
	now, err := m.etcd.Claims(m.ctx)
	m.must(err)
	claim := "data-" + left
	if len(pods) != 1 || pods[left] != before[left] || len(now) != 1 || now[claim] != claims[claim] {
		m.Errorf("pods are %v and claims %v; those of %s were %s and %s, and nothing else may be there", pods, now, left, before[left], claims[claim])
	}
	snapshot, err := m.etcd.Snapshot(m.ctx, left)
	m.must(err)
	m.figure(report.AtLeast("snapshot of the member that is left", float64(len(snapshot)), 1, "bytes", "what a person can save"))
}

// etcdScaledAndUpgraded has clients at work while members are added, removed and upgraded.
func etcdScaledAndUpgraded(s *stage) {
	m := s.members(1, "3.5.35")
	s.underEtcdLoad(m.etcd)
	for _, size := range []int{3, 5, 3} {
		m.resize(size)
	}
	m.after("upgraded to 3.6.16", func() error { return m.change(map[string]any{"version": "3.6.16"}) })
	m.same(slices.Sorted(maps.Keys(m.ids))...)
	resource, err := m.etcd.Resource(s.ctx)
	s.must(err)
	if status := resource.Status; status.CurrentVersion != "3.6.16" || status.TargetVersion != "" {
		s.Errorf("the version is %s, to be %q", status.CurrentVersion, status.TargetVersion)
	}
	s.step("members run 3.6.16", func() error { return m.run("3.6.16") })
	s.step("a downgrade is refused", func() error {
		if err := m.change(map[string]any{"version": "3.5.35"}); err != nil {
			return err
		}
		return m.etcd.UntilStatus(s.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool { return harness.IsHeldBy(status, "NotSupported") })
	})
	m.witness()
	s.step("deleted", func() error { return m.etcd.Delete(s.ctx) })
}

// memberScenario is a cluster whose members change.
type memberScenario struct {
	*stage

	etcd harness.Etcd
	// ids are those before and after the last change.
	was, ids map[string]string
}

func (s *stage) members(size int32, version string, changes ...func(*unstructured.Unstructured) error) *memberScenario {
	s.Helper()
	s.fromScratch()
	s.operatorForEtcd()
	m := &memberScenario{stage: s, etcd: harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}}
	s.step("created", func() error {
		if err := m.etcd.Create(s.ctx, size, append(changes, harness.Version(version))...); err != nil {
			return err
		}
		return m.etcd.UntilReady(s.ctx)
	})
	m.observe()
	return m
}

func (m *memberScenario) change(spec map[string]any) error {
	return m.etcd.Change(m.ctx, map[string]any{"spec": spec})
}

func (m *memberScenario) observe() {
	m.Helper()
	ids, err := m.etcd.IDs(m.ctx)
	m.must(err)
	m.was, m.ids = m.ids, ids
}

// after changes something and waits until the cluster is not ready, and ready again.
func (m *memberScenario) after(what string, change func() error) {
	m.Helper()
	begun := time.Now()
	m.step(what, func() error {
		if err := change(); err != nil {
			return err
		}
		if err := m.etcd.UntilStatus(m.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool { return !harness.IsReady(status) }); err != nil {
			return err
		}
		return m.etcd.UntilStatus(m.ctx, harness.IsReady)
	})
	m.took(begun, what, "until the EtcdCluster is ready again")
	m.observe()
}

func (m *memberScenario) resize(size int) {
	m.Helper()
	what := map[int]string{3: "three members", 5: "five members"}[size]
	m.after(what, func() error { return m.change(map[string]any{"size": size}) })
	claims, err := m.etcd.Claims(m.ctx)
	m.must(err)
	if members := m.allVote(m.etcd, size); len(claims) != size {
		m.Errorf("members %v have claims %v", members, claims)
	}
	for name, id := range m.was {
		if now, stays := m.ids[name]; stays && now != id {
			m.Errorf("member %s was %s and is %s", name, id, now)
		}
	}
}

// same holds that members are those of before the last change, and other that one is not.
func (m *memberScenario) same(members ...string) {
	m.Helper()
	for _, member := range members {
		if m.was[member] != m.ids[member] || m.ids[member] == "" {
			m.Errorf("member %s was %s and is %s", member, m.was[member], m.ids[member])
		}
	}
}

func (m *memberScenario) other(member string) {
	m.Helper()
	if m.was[member] == m.ids[member] {
		m.Errorf("member %s is %s, as before", member, m.ids[member])
	}
}

// witness ends the clients. A client may wait as long as an election and one answer take.
func (m *memberScenario) witness() {
	m.Helper()
	result := m.witnessEtcd()
	m.figure(report.AtMost("longest time without a write within bounds", result.Stall.Length.Seconds(), maxGap.Seconds(), "s",
		"between two acknowledgements of any writer"))
}

const writtenKey, writtenValue = "written", "before all pods were deleted"

func (m *memberScenario) write() error {
	return as(m.ctx, m.etcd, clusterName+"-0", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, writtenKey, writtenValue)
		return err
	})
}

func (m *memberScenario) read() error {
	return as(m.ctx, m.etcd, clusterName+"-1", func(ctx context.Context, client *clientv3.Client) error {
		response, err := client.Get(ctx, writtenKey)
		if err == nil && (len(response.Kvs) != 1 || string(response.Kvs[0].Value) != writtenValue) {
			m.Errorf("key %s is %v", writtenKey, response.Kvs)
		}
		return err
	})
}

// run holds that each member runs a version.
func (m *memberScenario) run(version string) error {
	for member := range m.ids {
		if err := as(m.ctx, m.etcd, member, func(ctx context.Context, client *clientv3.Client) error {
			status, err := client.Status(ctx, client.Endpoints()[0])
			if err == nil && !strings.HasPrefix(status.Version, version) {
				m.Errorf("member %s runs %s", member, status.Version)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
