package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// single is one etcd without TLS, and a client of it.
type single struct {
	home, dir, client, peer string
	server                  *exec.Cmd
}

func newSingle(t *testing.T, home string) *single {
	t.Helper()
	return &single{home: home, dir: t.TempDir(), client: "http://" + free(t), peer: "http://" + free(t)}
}

func (s *single) data() string { return filepath.Join(s.dir, "data") }

func (s *single) run(t *testing.T) {
	t.Helper()
	s.server = exec.CommandContext(t.Context(), filepath.Join(s.home, "etcd"), "--name="+podName, "--data-dir="+s.data(),
		"--listen-client-urls="+s.client, "--advertise-client-urls="+s.client, "--listen-peer-urls="+s.peer,
		"--initial-advertise-peer-urls="+s.peer, "--initial-cluster="+podName+"="+s.peer, "--enable-grpc-gateway=false", "--log-level=error")
	s.server.Stderr = os.Stderr
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
}

// kill ends etcd without a word, as a machine that is lost does.
func (s *single) kill() {
	if s.server != nil {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	}
	s.server = nil
}

// as connects as a user of etcd; the name is empty of one without a password.
func (s *single) as(t *testing.T, user string) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Context: t.Context(), Endpoints: []string{s.client}, DialTimeout: limit, Logger: zap.NewNop(), Username: user, Password: user}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// contents are all that a cluster holds for its clients.
type contents struct {
	Revision int64
	Keys     map[string][5]any
	Leases   map[clientv3.LeaseID]string
	Users    map[string][]string
	Roles    map[string][]*authpb.Permission
	Auth     bool
}

func read(ctx context.Context, client *clientv3.Client) (contents, uint64, error) {
	c := contents{Keys: map[string][5]any{}, Leases: map[clientv3.LeaseID]string{}, Users: map[string][]string{}, Roles: map[string][]*authpb.Permission{}}
	response, err := client.Get(ctx, "", clientv3.WithPrefix())
	if err != nil {
		return c, 0, err
	}
	c.Revision = response.Header.GetRevision()
	for _, pair := range response.Kvs {
		c.Keys[string(pair.Key)] = [5]any{string(pair.Value), pair.CreateRevision, pair.ModRevision, pair.Version, pair.Lease}
	}
	auth, err := client.AuthStatus(ctx)
	if err != nil {
		return c, 0, err
	}
	c.Auth = auth.Enabled
	leases, err := client.Leases(ctx)
	if err != nil {
		return c, 0, err
	}
	for _, lease := range leases.Leases {
		about, err := client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return c, 0, err
		}
		c.Leases[lease.ID] = fmt.Sprintf("%d s, %q", about.GrantedTTL, about.Keys)
	}
	err = c.readUsers(ctx, client)
	return c, response.Header.GetClusterId(), err
}

func (c *contents) readUsers(ctx context.Context, client *clientv3.Client) error {
	users, err := client.UserList(ctx)
	if err != nil {
		return err
	}
	for _, user := range users.Users {
		about, err := client.UserGet(ctx, user)
		if err != nil {
			return err
		}
		c.Users[user] = about.Roles
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
		c.Roles[role] = about.Perm
	}
	return nil
}

// fill writes, changes and deletes keys, grants leases, creates users and roles, and turns authentication on.
func fill(ctx context.Context, client *clientv3.Client) error {
	short, err := client.Grant(ctx, 3600)
	if err != nil {
		return err
	}
	if _, err := client.Grant(ctx, 7200); err != nil {
		return err
	}
	steps := []func() error{
		func() error { _, err := client.Put(ctx, "leased", "value", clientv3.WithLease(short.ID)); return err },
		func() error { _, err := client.RoleAdd(ctx, "reader"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "reader", "key/", clientv3.GetPrefixRangeEnd("key/"), clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "ann", "ann"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "ann", "reader"); return err },
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	}
	for i := range 50 {
		key := fmt.Sprintf("key/%02d", i)
		steps = append([]func() error{
			func() error { _, err := client.Put(ctx, key, "first"); return err },
			func() error { _, err := client.Put(ctx, key, "second"); return err },
		}, steps...)
		if i%7 == 0 {
			steps = slices.Insert(steps, 2, func() error { _, err := client.Delete(ctx, key); return err })
		}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// raise raises both alarms, as members do. Etcd accepts no writes then.
func raise(ctx context.Context, client *clientv3.Client) error {
	service := etcdserverpb.NewMaintenanceClient(client.ActiveConnection())
	for _, kind := range []etcdserverpb.AlarmType{etcdserverpb.AlarmType_NOSPACE, etcdserverpb.AlarmType_CORRUPT} {
		if _, err := service.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: 0xabcdef, Alarm: kind}); err != nil {
			return err
		}
	}
	if _, err := client.Put(ctx, "key", "value"); !errors.Is(err, rpctypes.ErrCorrupt) {
		return fmt.Errorf("a write with the alarm CORRUPT: %w", err)
	}
	return nil
}

// copies are a snapshot of etcd, and the database of its member that was killed.
type copies struct {
	before         contents
	cluster        uint64
	snapshot, file []byte
}

func lost(t *testing.T, home string) copies {
	t.Helper()
	s := newSingle(t, home)
	s.run(t)
	if err := fill(t.Context(), s.as(t, "")); err != nil {
		t.Fatal(err)
	}
	client := s.as(t, "root")
	var c copies
	var err error
	if c.before, c.cluster, err = read(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if err := raise(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	source, err := client.Snapshot(t.Context()) // which also has etcd write everything to its database
	if err != nil {
		t.Fatal(err)
	}
	c.snapshot, err = io.ReadAll(source)
	if err = errors.Join(err, source.Close()); err != nil {
		t.Fatal(err)
	}
	s.kill()
	if c.file, err = os.ReadFile(filepath.Join(s.data(), "member", "snap", "db")); err != nil {
		t.Fatal(err)
	}
	return c
}

// restored runs etcd of a home on what the agent has restored.
func restored(t *testing.T, home string, data []byte) *single {
	t.Helper()
	s := newSingle(t, home)
	r := restoring(t, "", firstStart)
	r.DataDir = s.data()
	r.Command = []string{
		filepath.Join(home, "etcdutl"), "snapshot", "restore", "--name=" + podName, "--initial-cluster=" + podName + "=" + s.peer,
		"--initial-cluster-token=another-uid", "--initial-advertise-peer-urls=" + s.peer,
	}
	put(t, r, data)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.run(t)
	return s
}

// isIn holds that an etcd has what was written, in a cluster of another id, and no alarms.
func (c copies) isIn(t *testing.T, s *single) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	after, cluster, err := read(ctx, s.as(t, "root"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.before, after, cmp.Comparer(func(a, b *authpb.Permission) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("written and restored differ (-written +restored):\n%s", diff)
	}
	if cluster == c.cluster {
		t.Error("the cluster has the id of the earlier one")
	}
	if alarms, err := s.as(t, "root").AlarmList(ctx); err != nil || len(alarms.Alarms) > 0 {
		t.Errorf("the cluster has the alarms %v, %v", alarms, err)
	}
	if _, err := s.as(t, "ann").Put(ctx, "key/01", "value"); err == nil {
		t.Error("a user writes what its role lets it read only")
	}
}

func versionOf(t *testing.T, home string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join(home, "etcd"), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(output), "\n")
	return strings.TrimPrefix(line, "etcd Version: ")
}

// Everything that clients have is there again in a cluster of another id, whatever of the two is left.
func TestRealEtcdIsRestored(t *testing.T) {
	t.Parallel()
	homes := filepath.SplitList(os.Getenv(etcdHomes))
	if len(homes) == 0 {
		t.Skipf("no etcd in $%s", etcdHomes)
	}
	newest := slices.MaxFunc(homes, func(a, b string) int { return strings.Compare(versionOf(t, a), versionOf(t, b)) })
	for _, home := range homes {
		from := lost(t, home)
		for _, into := range homes {
			for what, data := range map[string][]byte{"a snapshot": from.snapshot, "the database of a killed member": from.file} {
				t.Run(fmt.Sprintf("%s of %s into %s", what, versionOf(t, home), versionOf(t, into)), func(t *testing.T) {
					t.Parallel()
					s := restored(t, into, data)
					from.isIn(t, s)
					s.kill()
					s.home = newest
					s.run(t)
					from.isIn(t, s) // also once it is upgraded
				})
			}
		}
	}
}
