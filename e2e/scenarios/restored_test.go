package scenarios

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clientv3 "go.etcd.io/etcd/client/v3"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/report"
)

// etcdRestored begins clusters with the data of another one: of its backup, and of the one volume that is left when its
// quorum is lost. They have all that clients had, and certificates and ids of their own.
func etcdRestored(s *stage) {
	m := s.members(3, "3.6.16")
	left := clusterName + "-0"
	s.step("keys, leases, users and roles written", func() error {
		return as(s.ctx, m.etcd, left, func(ctx context.Context, client *clientv3.Client) error {
			if err := load(ctx, client); err != nil {
				return err
			}
			return loadBesides(ctx, client)
		})
	})
	backedUp := m.everything(m.etcd, left)
	var backup *etcdv1beta2.EtcdBackup
	s.step("backed up", func() (err error) {
		backup, err = m.etcd.BackUp(s.ctx, "once")
		return err
	})
	s.step("more written", func() error { return m.write() })
	s.step("restored from the backup", func() error {
		return m.begin("restored", map[string]any{"backup": map[string]any{"name": backup.Name}})
	})
	m.isRestored("restored", backedUp, backup.Status.ClaimName)

	s.step("restored deleted", func() error { return m.named("restored").Delete(s.ctx) })

	last := m.everything(m.etcd, left)
	m.loseQuorum(left)
	s.step("a cluster begins with the volume that is left", func() error { return m.rescue(left) })
	begun := time.Now()
	s.step("restored from the volume", func() error {
		if err := m.change(map[string]any{"paused": true}); err != nil {
			return err
		}
		if err := m.etcd.Stop(s.ctx, left); err != nil {
			return err
		}
		return m.named("rescued").UntilReady(s.ctx)
	})
	s.took(begun, "cluster restored from a volume", "from the stop of the member that is left until three members are ready")
	m.isRestored("rescued", last, "data-"+left)
	for _, name := range []string{clusterName, "rescued"} {
		s.step(name+" deleted", func() error { return m.named(name).Delete(s.ctx) })
	}
}

// rescue creates a cluster of the volume of a member. On one node, which can mount it twice, it is refused while the member
// runs.
func (m *memberScenario) rescue(left string) error {
	source := map[string]any{"volume": map[string]any{"claimName": "data-" + left, "path": "data/member/snap/db"}}
	rescued := m.named("rescued")
	if err := rescued.Create(m.ctx, 3, harness.Restoring(source)); err != nil {
		return err
	}
	if bed, err := m.kube.OnBed(m.ctx); err != nil || !bed {
		return err
	}
	return rescued.UntilStatus(m.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
		return harness.IsHeldBy(status, string(contract.RestoreSourceInUse))
	})
}

func (m *memberScenario) named(name string) harness.Etcd {
	return harness.Etcd{Kube: m.kube, Namespace: m.etcd.Namespace, Name: name}
}

func (m *memberScenario) begin(name string, source map[string]any) error {
	if err := m.named(name).Create(m.ctx, 3, harness.Restoring(source)); err != nil {
		return err
	}
	return m.named(name).UntilReady(m.ctx)
}

// loseQuorum takes the data of all members but one.
func (m *memberScenario) loseQuorum(left string) {
	m.Helper()
	var lost []string
	for name := range m.ids {
		if name != left {
			lost = append(lost, name)
		}
	}
	m.step("the quorum is lost", func() error {
		if err := m.etcd.DeleteClaims(m.ctx, lost...); err != nil {
			return err
		}
		if err := m.etcd.DeletePods(m.ctx, lost...); err != nil {
			return err
		}
		return m.etcd.UntilStatus(m.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool { return harness.IsHeldBy(status, "QuorumLost") })
	})
}

// isRestored holds that each member of a cluster has what was read of another one, and that clients of that are refused.
func (m *memberScenario) isRestored(name string, want everything, claim string) {
	m.Helper()
	restored := m.named(name)
	resource, err := restored.Resource(m.ctx)
	m.must(err)
	if status := resource.Status.Restored; status == nil || status.ClaimName != claim || status.Revision != want.Revision {
		m.Errorf("the status of %s says that %+v was restored, want revision %d of claim %s", name, status, want.Revision, claim)
	}
	for _, member := range m.allVote(restored, 3) {
		got := m.everything(restored, member)
		if got.cluster == want.cluster {
			m.Errorf("%s has the id of the cluster that its data are of", name)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(everything{})); diff != "" {
			m.Errorf("member %s has other data than were written (-written +restored):\n%s", member, diff)
		}
	}
	m.figure(report.AtLeast("keys restored into "+name, float64(len(want.Keys)), 500, "keys", "each with its value, its revisions, its version and its lease, in each member"))
	m.isRefused(restored)
}

// isRefused holds that a cluster refuses the operator's certificate for the one that its data are of.
func (m *memberScenario) isRefused(restored harness.Etcd) {
	m.Helper()
	earlier, err := m.etcd.Operator(m.ctx)
	m.must(err)
	config, err := restored.Operator(m.ctx)
	m.must(err)
	config.Certificates = nil
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &earlier.Certificates[0], nil }
	if accepts, err := restored.Accepts(m.ctx, restored.Name+"-0", contract.ClientPlane, config); err != nil || accepts {
		m.Errorf("%s accepts a client of %s: %t, %v", restored.Name, m.etcd.Name, accepts, err)
	}
}

// everything is all that etcd keeps for its clients.
type everything struct {
	Keys     map[string]stored
	Revision int64
	// Leases, Users and Roles are rendered, by id and name.
	Leases, Users, Roles map[string]string

	cluster uint64
}

// everything reads a cluster by one of its members.
func (m *memberScenario) everything(etcd harness.Etcd, member string) everything {
	m.Helper()
	all := everything{Leases: map[string]string{}, Users: map[string]string{}, Roles: map[string]string{}}
	m.must(as(m.ctx, etcd, member, func(ctx context.Context, client *clientv3.Client) error {
		keys := everyKey{}
		if err := keys.read(ctx, client); err != nil {
			return err
		}
		all.Keys, all.Revision = keys.keys, keys.revision
		if err := all.readLeases(ctx, client); err != nil {
			return err
		}
		return all.readUsers(ctx, client)
	}))
	return all
}

func (e *everything) readLeases(ctx context.Context, client *clientv3.Client) error {
	leases, err := client.Leases(ctx)
	if err != nil {
		return err
	}
	e.cluster = leases.GetClusterId()
	for _, lease := range leases.Leases {
		about, err := client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return err
		}
		e.Leases[fmt.Sprint(lease.ID)] = fmt.Sprintf("%d s for %q", about.GrantedTTL, about.Keys)
	}
	return nil
}

func (e *everything) readUsers(ctx context.Context, client *clientv3.Client) error {
	users, err := client.UserList(ctx)
	if err != nil {
		return err
	}
	for _, user := range users.Users {
		about, err := client.UserGet(ctx, user)
		if err != nil {
			return err
		}
		e.Users[user] = fmt.Sprint(about.Roles)
	}
	roles, err := client.RoleList(ctx)
	if err != nil {
		return err
	}
	for _, role := range roles.Roles {
		about, err := client.RoleGet(ctx, role)
		if err != nil {
			return err
		}
		e.Roles[role] = fmt.Sprint(about.Perm)
	}
	return nil
}

// loadBesides grants leases, and creates users and roles.
func loadBesides(ctx context.Context, client *clientv3.Client) error {
	for i := range 5 {
		lease, err := client.Grant(ctx, int64(3600+i))
		if err != nil {
			return err
		}
		if _, err := client.Put(ctx, fmt.Sprintf("leased/%d", i), "value", clientv3.WithLease(lease.ID)); err != nil {
			return err
		}
		role, user := fmt.Sprintf("role-%d", i), fmt.Sprintf("user-%d", i)
		if _, err := client.RoleAdd(ctx, role); err != nil {
			return err
		}
		prefix := fmt.Sprintf("load/%d", i)
		if _, err := client.RoleGrantPermission(ctx, role, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			return err
		}
		if _, err := client.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
			return err
		}
		if _, err := client.UserGrantRole(ctx, user, role); err != nil {
			return err
		}
	}
	return nil
}
