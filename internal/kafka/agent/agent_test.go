package agent_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/freeport"
	kafkaagent "github.com/keyturn/keyturn/internal/kafka/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/storage"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	podName   = "my-cluster-pool-0"
	clusterID = "MkU3OEVBNTcwNTJENDM2Qg"
	// javaMode makes the test binary behave as the Java launcher.
	javaMode = "KEYTURN_TEST_JAVA"
	// limit is how long the tests wait for what happens in other processes.
	limit = 30 * time.Second
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(javaMode); mode != "" {
		os.Exit(java(mode, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// java is Kafka as far as the agent sees it run: a tool that formats, and a
// server that runs until it is told to end.
func java(mode string, args []string) int {
	line := strings.Join(args, " ")
	switch {
	case strings.Contains(line, "kafka.tools.StorageTool"):
		if mode == "format fails" {
			fmt.Println("the tool's reason")
			return 1
		}
		directory := os.Getenv("KEYTURN_TEST_DATA")
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return 2
		}
		meta := "version=1\nnode.id=4\ncluster.id=" + clusterID + "\n"
		if err := os.WriteFile(filepath.Join(directory, "meta.properties"), []byte(meta), 0o600); err != nil {
			return 2
		}
		return 0
	case mode == "server fails":
		return 3
	default:
		// The runtime ends a program in which nothing can ever happen again; one that
		// listens for a signal is not such a program.
		received := make(chan os.Signal, 1)
		signal.Notify(received, syscall.SIGUSR1)
		fmt.Println("The broker has caught up. Transitioning from STARTING to RECOVERY.")
		<-received
		return 4
	}
}

// pod is everything around one agent.
type pod struct {
	stores.Mounted

	options     kafkaagent.Options
	ca          pki.Authority
	node        stores.Identity
	operator    stores.Identity
	publication publication.Publication
	data        string
	log         *buffer
	kafka       *fakeKafka
	// turn is how long the node waits before it begins a reload.
	turn time.Duration
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newPod(t *testing.T, mode string) *pod {
	t.Helper()
	now := time.Now()
	ca := agenttest.Authority(t, "cluster-ca v0", now)
	p := &pod{
		ca: ca, node: agenttest.Leaf(t, ca, "my-cluster-kafka", now, podName), operator: agenttest.Operator(t, ca, now),
		data: filepath.Join(t.TempDir(), "kafka-log4"), log: &buffer{},
	}
	anchor := pki.FingerprintOf(ca.Certificate()).String()
	p.publication = publication.Publication{
		Revision:   1,
		Identities: map[string]string{publication.NodeIdentity: p.node.Fingerprint()},
		Trust:      map[publication.Role][]string{publication.AgentRole: {anchor}, contract.ReplicationListener: {anchor}},
		Operators:  []string{p.operator.Fingerprint()},
	}
	p.Mounted = stores.Mounted{
		Node:         stores.Directory{},
		ClusterTrust: agenttest.TrustDirectory(ca.Certificate()),
		ClientsTrust: stores.Directory{"placeholder": nil},
		Pod:          agenttest.Pod(t, p.publication),
		Config: agenttest.Configuration(t, contract.Config{
			PodName: podName, NodeID: 4, Roles: []string{contract.RoleBroker}, DataDirs: []string{p.data}, GraceSeconds: 20,
			Stores: []publication.Store{{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain}},
		}, clusterID, "node.id=4\n"),
	}
	agenttest.PutIdentity(p.Node, podName, p.node)
	agenttest.PutPublication(t, p.Node, p.publication)
	p.kafka = newFakeKafka(t, p)
	p.options = p.optionsFor(t, mode)
	p.kafka.properties = filepath.Join(p.options.RunDir, "server.properties")
	return p
}

func (p *pod) optionsFor(t *testing.T, mode string) kafkaagent.Options {
	t.Helper()
	home := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.MkdirAll(filepath.Join(home, "libs"), 0o700), os.WriteFile(filepath.Join(home, "libs", "kafka.jar"), nil, 0o600),
		os.MkdirAll(filepath.Join(home, "java", "bin"), 0o700), os.Symlink(program, filepath.Join(home, "java", "bin", "java")),
	)
	if err != nil {
		t.Fatal(err)
	}
	return kafkaagent.Options{
		Mounts: agenttest.WriteMounts(t, t.TempDir(), p.Mounted), RunDir: filepath.Join(t.TempDir(), "run"),
		KafkaHome: home, JavaHome: filepath.Join(home, "java"), Host: "127.0.0.1",
		SecureAddress: free(t), ProbeAddress: free(t),
		Env:    []string{javaMode + "=" + mode, "KEYTURN_TEST_DATA=" + p.data},
		Output: p.log, Wait: process.WaitForOne, Dial: p.kafka.dial,
		Clock: clock.RealClock{}, Turn: func(int32) time.Duration { return p.turn }, Log: slog.New(slog.NewJSONHandler(p.log, nil)),
	}
}

// free returns an address nobody listens on at this moment.
func free(t *testing.T) string {
	t.Helper()
	return freeport.Address(t)
}

// running is a started agent.
type running struct {
	*pod

	cancel context.CancelFunc
	ended  chan error
}

func (p *pod) start(t *testing.T) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{pod: p, cancel: cancel, ended: make(chan error, 1)}
	go func() {
		r.ended <- kafkaagent.Run(ctx, p.options)
		close(r.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range r.ended { // until it has ended, if it has not yet
		}
	})
	return r
}

// end returns what the agent ended with.
func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(limit):
		t.Fatalf("the agent has not ended; its log:\n%s", r.log)
		return nil
	}
}

// until asks the kubelet's probe until the answer has the status, and returns
// its body.
func (r *running) until(t *testing.T, status int, part string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		got, body, err := r.probe(ctx)
		if got == status && strings.Contains(body, part) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("status %d, body %q, %v; want %d with %q; the log:\n%s", got, body, err, status, part, r.log)
		}
	}
}

func (r *running) probe(ctx context.Context) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.options.ProbeAddress+agent.ReadyPath, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	return resp.StatusCode, body.String(), errors.Join(err, resp.Body.Close())
}

func (r *running) report(t *testing.T) publication.Report {
	t.Helper()
	c := client.New(client.Options{
		Dial: (&net.Dialer{}).DialContext, Now: time.Now, Timeout: limit,
		Credentials: func(context.Context) (mtls.Credentials, error) {
			return mtls.Credentials{Identity: server.Certificate(r.operator), Anchors: []*x509.Certificate{r.ca.Certificate()}}, nil
		},
	})
	report, err := c.TLS(t.Context(), client.Node{Address: r.options.SecureAddress, Name: podName, Leaves: []string{r.node.Fingerprint()}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestServerIsStartedWhenItsAnchorsAreMounted(t *testing.T) {
	t.Parallel()
	p := newPod(t, "serve")
	mounttest.WriteVolume(t, p.options.Mounts.ClusterTrust, stores.Directory{})
	r := p.start(t)
	anchor := pki.FingerprintOf(p.ca.Certificate()).String()
	r.until(t, http.StatusServiceUnavailable, "anchor "+anchor)
	if _, err := os.Stat(filepath.Join(p.options.RunDir, "server.properties")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the server's configuration is written before it may start: %v", err)
	}
	mounttest.WriteVolume(t, p.options.Mounts.ClusterTrust, p.ClusterTrust)
	r.until(t, http.StatusNoContent, "")
	report := r.report(t)
	for _, role := range []publication.Role{publication.AgentRole, contract.ReplicationListener} {
		if got := report.Roles[role]; got.Presents != p.node.Fingerprint() || len(got.Trusts) != 1 || got.Trusts[0] != anchor {
			t.Errorf("%s: %+v, want the published leaf and anchor", role, got)
		}
	}
	if report.Revision != 1 || report.StartedAt.IsZero() {
		t.Errorf("revision %d, started at %s", report.Revision, report.StartedAt)
	}
	if strings.Contains(p.log.String(), "PRIVATE KEY") {
		t.Error("the log shows key material")
	}
}

func TestWrittenFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	p := newPod(t, "serve")
	old := filepath.Join(p.options.RunDir, "stores", "of-an-earlier-start.pem")
	if err := errors.Join(os.MkdirAll(filepath.Dir(old), 0o700), os.WriteFile(old, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.start(t).until(t, http.StatusNoContent, "")
	files := 0
	err := filepath.WalkDir(p.options.RunDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		info, err := entry.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil || files != 7 { // two stores, two slots for each, and the configuration
		t.Errorf("%d files, %v; want 7", files, err)
	}
}

func TestEndOfTheServerIsTheAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode string
		code int
	}{
		"a server that fails":              {"server fails", 3},
		"a tool that cannot format":        {"format fails", 1},
		"a server that was asked to end":   {"serve", 143},
		"a wait for mounts that was ended": {"wait", 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t, c.mode)
			if c.mode == "wait" {
				mounttest.WriteVolume(t, p.options.Mounts.ClusterTrust, stores.Directory{})
			}
			r := p.start(t)
			switch c.mode {
			case "serve":
				r.until(t, http.StatusNoContent, "")
				r.cancel()
			case "wait":
				r.until(t, http.StatusServiceUnavailable, agent.ReasonWaitingForMounts)
				r.cancel()
			}
			exit, ok := errors.AsType[*process.ExitError](r.end(t))
			if !ok || exit.ExitCode() != c.code {
				t.Errorf("exit %+v, want code %d; the log:\n%s", exit, c.code, p.log)
			}
		})
	}
}

func TestSignalsReachTheServer(t *testing.T) {
	t.Parallel()
	p := newPod(t, "serve")
	signals := make(chan os.Signal, 1)
	p.options.Signals = signals
	r := p.start(t)
	r.until(t, http.StatusNoContent, "")
	signals <- os.Interrupt
	if exit, ok := errors.AsType[*process.ExitError](r.end(t)); !ok || exit.ExitCode() != 130 {
		t.Errorf("exit %+v, want the server's end by an interrupt", exit)
	}
}

func TestDataOfAnotherClusterIsRefusedByName(t *testing.T) {
	t.Parallel()
	p := newPod(t, "serve")
	meta := "node.id=4\ncluster.id=AnotherClustersIdentif\n"
	if err := errors.Join(os.MkdirAll(p.data, 0o700), os.WriteFile(filepath.Join(p.data, "meta.properties"), []byte(meta), 0o600)); err != nil {
		t.Fatal(err)
	}
	err := p.start(t).end(t)
	foreign, ok := errors.AsType[*storage.ForeignError](err)
	if !ok || !strings.Contains(foreign.Error(), "AnotherClustersIdentif") || !strings.Contains(foreign.Error(), p.data) {
		t.Errorf("error %v, want a ForeignError that names the cluster and the directory", err)
	}
}
