package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"

	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/agenttest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/snapshot"
	"github.com/keyturn/keyturn/internal/etcd/snapshot/snapshottest"
	"github.com/keyturn/keyturn/internal/pki"
)

// playedEtcd answers what a backup asks for.
type playedEtcd struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedMaintenanceServer

	data     []byte
	revision int64
	denies   bool
	// isOld is etcd 3.5, whose snapshots do not say its version.
	isOld bool
}

func (e *playedEtcd) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: e.revision}}, nil
}

func (e *playedEtcd) Snapshot(_ *etcdserverpb.SnapshotRequest, stream etcdserverpb.Maintenance_SnapshotServer) error {
	if e.denies {
		return rpctypes.ErrGRPCPermissionDenied
	}
	half, version := len(e.data)/2, "3.6.16"
	if e.isOld {
		version = ""
	}
	for _, part := range [][]byte{e.data[:half], e.data[half:]} {
		if err := stream.Send(&etcdserverpb.SnapshotResponse{Blob: part, Version: version}); err != nil {
			return err
		}
	}
	return nil
}

func (e *playedEtcd) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Version: "3.5.35"}, nil
}

// serve starts the server with a certificate of one CA. It accepts clients of a CA.
func (e *playedEtcd) serve(t *testing.T, ca, clients pki.Authority) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	sans, err := pki.NewSANs("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "my-cluster-0"}, SANs: sans, Usages: []pki.Usage{pki.ServerAuth}, Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(clients.Certificate())
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}},
		ClientCAs:    roots, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	etcdserverpb.RegisterKVServer(server, e)
	etcdserverpb.RegisterMaintenanceServer(server, e)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}

// backUp runs the agent of a new pod of the name, signs its request for a client, and returns the result.
func backUp(t *testing.T, pod *agenttest.Pod, url string) (contract.BackupResult, etcdagent.Backup, error) {
	t.Helper()
	backup := etcdagent.Backup{
		Options: etcdagent.Options{
			PodName: pod.Name, Key: pki.DefaultLeafKey(pki.ECDSA), Annotate: pod.API(t), NodeDir: pod.NodeDir, PodDir: pod.PodDir,
			RunDir: pod.RunDir, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
			ResultPath: filepath.Join(t.TempDir(), "result"),
		},
		URL: url, Store: snapshot.Store{Volume: t.TempDir(), Directory: "my-cluster/nightly"}, Keep: 1,
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	go func() { ended <- backup.Run(ctx) }()
	signed := false
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			text, readErr := os.ReadFile(backup.ResultPath)
			if readErr != nil {
				t.Fatalf("there is no result: %v, the agent ended with %v", readErr, err)
			}
			result, readErr := contract.ParseBackupResult(string(text))
			if readErr != nil {
				t.Fatal(readErr)
			}
			return result, backup, err
		case <-tick.C:
		}
		if request := pod.Request(t, contract.ClientPlane); request != nil && !signed {
			leaf, err := pod.CAs[contract.ClientPlane].Issue(request.PublicKey, pki.LeafSpec{
				Subject: pki.Subject{CommonName: "my-cluster-backup"}, Usages: []pki.Usage{pki.ClientAuth}, Validity: time.Hour, Now: time.Now(),
			})
			if err != nil {
				t.Fatal(err)
			}
			pod.Answer(t, contract.ClientPlane, leaf)
			signed = true
		}
	}
}

func TestABackupEnrolsAsAClientAndStoresAVerifiedCopy(t *testing.T) {
	t.Parallel()
	pod := agenttest.NewPod(t, "nightly-backup", time.Now())
	etcd := &playedEtcd{data: snapshottest.Data(t, 70), revision: 70}
	ca := pod.CAs[contract.ClientPlane]
	result, backup, err := backUp(t, pod, etcd.serve(t, ca, ca))
	if err != nil || result.Failure != "" {
		t.Fatalf("%v, %+v", err, result)
	}
	if result.Revision != 70 || result.Size != int64(len(etcd.data)) || result.Version != "3.6.16" || len(result.SHA256) != 64 {
		t.Errorf("the result is %+v", result)
	}
	stored, err := os.ReadFile(filepath.Join(backup.Store.Volume, result.Path))
	if err != nil || !bytes.Equal(stored, etcd.data) {
		t.Errorf("the file is not the snapshot: %v", err)
	}
	key := filepath.Join(pod.RunDir, "client", contract.KeyFile)
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v", info, err)
	}
	if pod.Request(t, contract.PeerPlane) != nil {
		t.Error("a request for the peer plane was sent")
	}
	if strings.Contains(pod.Annotation(contract.ClientPlane.RequestAnnotation()), "PRIVATE") {
		t.Error("a key is in the annotations")
	}
}

func TestABackupOfAnOldEtcdHasItsVersion(t *testing.T) {
	t.Parallel()
	pod := agenttest.NewPod(t, "nightly-backup", time.Now())
	etcd := &playedEtcd{data: snapshottest.Data(t, 70), revision: 70, isOld: true}
	ca := pod.CAs[contract.ClientPlane]
	if result, _, err := backUp(t, pod, etcd.serve(t, ca, ca)); err != nil || result.Version != "3.5.35" {
		t.Errorf("the result is %+v, %v", result, err)
	}
}

func TestABackupThatFailsSaysWhyAndStoresNothing(t *testing.T) {
	t.Parallel()
	data := snapshottest.Data(t, 70)
	for name, test := range map[string]struct {
		etcd playedEtcd
		// server is the pod whose CA has signed the server, and clients the one whose clients it accepts.
		server, clients int
		want            contract.BackupFailure
	}{
		"authentication of etcd is on":      {playedEtcd{data: data, revision: 70, denies: true}, 0, 0, contract.SnapshotDenied},
		"the copy is cut off":               {playedEtcd{data: data[:8192], revision: 70}, 0, 0, contract.SnapshotNotVerified},
		"the member lags":                   {playedEtcd{data: data, revision: 71}, 0, 0, contract.SnapshotNotVerified},
		"another cluster is at the address": {playedEtcd{data: data, revision: 70}, 1, 0, contract.SnapshotFailed},
		"another cluster refuses it":        {playedEtcd{data: data, revision: 70}, 0, 1, contract.SnapshotFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := []*agenttest.Pod{agenttest.NewPod(t, "nightly-backup", time.Now()), agenttest.NewPod(t, "other", time.Now())}
			url := test.etcd.serve(t, pods[test.server].CAs[contract.ClientPlane], pods[test.clients].CAs[contract.ClientPlane])
			result, backup, err := backUp(t, pods[0], url)
			if err == nil || result.Failure != test.want || result.Message == "" {
				t.Errorf("the result is %+v, %v, want %s", result, err, test.want)
			}
			left, err := filepath.Glob(filepath.Join(backup.Store.Volume, "*", "*", "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}
