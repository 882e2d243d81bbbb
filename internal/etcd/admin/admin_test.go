package admin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/freeport"
)

func TestTheFakeIsAsEtcdIs(t *testing.T) {
	t.Parallel()
	admintest.Run(t, &admintest.Fake{}, "http://127.0.0.1:2380", "http://127.0.0.1:12380")
}

// programs is the environment variable that names folders with etcd, separated by colons; make server-test sets it.
const programs = "KEYTURN_ETCD_HOMES"

func TestEtcd(t *testing.T) {
	t.Parallel()
	folders := filepath.SplitList(os.Getenv(programs))
	if len(folders) == 0 {
		t.Skip(programs + " names no folder with etcd")
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			admintest.Run(t, &servers{program: filepath.Join(folder, "etcd")}, free(t), free(t))
		})
	}
}

// servers are processes of etcd without TLS.
type servers struct {
	program string
	all     []string
	initial string
}

// free is a URL at which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	return "http://" + freeport.Address(t)
}

func (s *servers) Start(t *testing.T, name, peerURL string) string {
	t.Helper()
	state, clientURL := "existing", free(t)
	s.initial += "," + name + "=" + peerURL
	if len(s.all) == 0 {
		state, s.initial = "new", name+"="+peerURL
	}
	server := exec.CommandContext(t.Context(), s.program, "--name="+name, "--data-dir="+t.TempDir(),
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL,
		"--listen-client-urls="+clientURL, "--advertise-client-urls="+clientURL,
		"--initial-cluster="+s.initial, "--initial-cluster-state="+state, "--log-level=fatal")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() })
	s.all = append(s.all, clientURL)
	return clientURL
}

func (s *servers) Client(t *testing.T) admin.Client {
	t.Helper()
	client, err := admin.New(t.Context(), s.all, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
