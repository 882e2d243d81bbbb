package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/process"
	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/agenttest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/freeport"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	podName = "my-cluster-0"
	// etcdMode makes the test binary behave as etcd does.
	etcdMode = "KEYTURN_TEST_ETCD"
	// etcdEnd names a file without which the played etcd does not end when it is told to.
	etcdEnd = "KEYTURN_TEST_ETCD_END"
	// limit is how long the tests wait for what happens in other processes.
	limit = 30 * time.Second
	// refused is the exit code of the played etcd after SIGUSR1.
	refused = 7
)

func TestMain(m *testing.M) {
	if os.Getenv(etcdMode) != "" {
		os.Exit(etcd(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// etcd is the program as far as the agent sees it run: it reads its files, and runs until
// it is told to end.
func etcd(files []string) int {
	for _, file := range files {
		if strings.HasPrefix(file, "--") {
			fmt.Println("etcd was told", file)
			continue
		}
		if _, err := os.Stat(file); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGUSR1, syscall.SIGTERM)
	fmt.Println("etcd runs")
	if <-received == syscall.SIGTERM {
		awaitFile(os.Getenv(etcdEnd))
		return 0
	}
	return refused
}

func awaitFile(path string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for path != "" {
		if _, err := os.Stat(path); err == nil {
			return
		}
		<-tick.C
	}
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

// running is an agent with a pod around it.
type running struct {
	*agenttest.Pod

	options etcdagent.Options
	signals chan os.Signal
	log     *buffer
	cancel  context.CancelFunc
	ended   chan error
}

// start runs the agent of a new pod with the command. A health URL of etcd is given.
func start(t *testing.T, health string, env []string, command func(*agenttest.Pod) []string) *running {
	t.Helper()
	return startAs(t, etcdagent.Run, health, env, command)
}

// startAs is start for one of the kinds of agents.
func startAs(t *testing.T, run func(context.Context, etcdagent.Options) error, health string, env []string, command func(*agenttest.Pod) []string) *running {
	t.Helper()
	pod := agenttest.NewPod(t, podName, time.Now())
	r := &running{Pod: pod, signals: make(chan os.Signal, 1), log: &buffer{}, ended: make(chan error, 1)}
	r.options = etcdagent.Options{
		Command: command(pod), PodName: podName, Key: pki.DefaultLeafKey(pki.ECDSA), Annotate: pod.API(t),
		NodeDir: pod.NodeDir, PodDir: pod.PodDir, RunDir: pod.RunDir, DataDir: dataOf(pod),
		ResultPath: filepath.Join(t.TempDir(), "result"), SecureAddress: free(t), ProbeAddress: free(t), HealthURL: health,
		Env: env, Output: r.log, Signals: r.signals, Wait: process.WaitForOne, Clock: clock.RealClock{},
		Log: slog.New(slog.NewJSONHandler(r.log, nil)),
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	go func() {
		r.ended <- run(ctx, r.options)
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.cancel()
		for range r.ended { // until it has ended, if it has not yet
		}
	})
	return r
}

// dataOf is the data directory of a pod.
func dataOf(pod *agenttest.Pod) string { return filepath.Join(filepath.Dir(pod.RunDir), "data") }

// free returns an address on which nothing listens at this moment.
func free(t *testing.T) string {
	t.Helper()
	return freeport.Address(t)
}

// until waits until a condition holds.
func (r *running) until(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s; the log:\n%s", limit, what, r.log)
		case err := <-r.ended:
			t.Fatalf("the agent ended with %v before: %s; the log:\n%s", err, what, r.log)
		case <-tick.C:
		}
	}
}

// enrol signs both requests.
func (r *running) enrol(t *testing.T) {
	t.Helper()
	for _, plane := range contract.Planes() {
		r.until(t, "a request of the "+string(plane)+" plane", func(context.Context) bool { return r.Request(t, plane) != nil })
		r.Sign(t, plane, time.Now())
	}
}

func (r *running) ready(ctx context.Context) (bool, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.options.ProbeAddress+agent.ReadyPath, http.NoBody)
	if err != nil {
		return false, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusNoContent, string(body)
}

// untilReady waits until etcd serves, records that the member has joined, and waits until it is ready.
func (r *running) untilReady(t *testing.T) {
	t.Helper()
	r.until(t, "etcd serves", func(ctx context.Context) bool {
		ready, body := r.ready(ctx)
		return ready || strings.Contains(body, "has not recorded")
	})
	r.Join(t)
	r.until(t, "ready", func(ctx context.Context) bool {
		ready, _ := r.ready(ctx)
		return ready
	})
}

// client is a certificate for a client with the organization.
func client(t *testing.T, by pki.Authority, organization string) tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := by.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "client", Organization: organization}, Usages: pki.BothUsages(), Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}
}

// ask asks the agent as the client with the certificates does.
func (r *running) ask(ctx context.Context, t *testing.T, path string, certificates ...tls.Certificate) (int, string, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(r.CAs[contract.ClientPlane].Certificate())
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.options.SecureAddress+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), errors.Join(err, response.Body.Close())
}

func (r *running) report(ctx context.Context, t *testing.T) publication.Report {
	t.Helper()
	status, body, err := r.ask(ctx, t, agent.TLSPath, client(t, r.CAs[contract.ClientPlane], contract.OperatorOrganization))
	if err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	var report publication.Report
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// health is what etcd answers on loopback.
type health struct {
	broken, learner atomic.Bool
	// old is an etcd that answers /health and not /readyz.
	old bool
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case h.broken.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case h.old && r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/metrics":
		learner := 0
		if h.learner.Load() {
			learner = 1
		}
		_, _ = fmt.Fprintf(w, "# TYPE etcd_server_is_learner gauge\netcd_server_is_learner %d\n", learner)
	}
}

// played runs the agent with the played etcd, which wants all files of both planes.
func played(t *testing.T, h *health, env ...string) *running {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, server.URL, append(env, etcdMode+"=played"), func(pod *agenttest.Pod) []string {
		command := []string{program}
		for _, plane := range contract.Planes() {
			for _, file := range []string{contract.CertificateFile, contract.KeyFile, contract.AnchorsFile} {
				command = append(command, filepath.Join(pod.RunDir, string(plane), file))
			}
		}
		return command
	})
}

func TestEtcdIsStartedWhenBothPlanesAreCertified(t *testing.T) {
	t.Parallel()
	r := played(t, &health{})
	r.until(t, "a request", func(context.Context) bool { return r.Request(t, contract.ClientPlane) != nil })
	r.Sign(t, contract.ClientPlane, time.Now())
	r.until(t, "only the peer plane is missing", func(ctx context.Context) bool {
		ready, body := r.ready(ctx)
		return !ready && strings.Contains(body, contract.PeerPlane.CertificateAnnotation()) && !strings.Contains(body, contract.ClientPlane.CertificateAnnotation())
	})
	if strings.Contains(r.log.String(), "etcd runs") {
		t.Fatal("etcd was started without a certificate of the peer plane")
	}
	leaf := r.Sign(t, contract.PeerPlane, time.Now())
	r.untilReady(t)
	report := r.report(t.Context(), t)
	for _, plane := range contract.Planes() {
		role := report.Roles[plane.Role()]
		if want := pki.FingerprintOf(r.CAs[plane].Certificate()).String(); !slices.Equal(role.Trusts, []string{want}) {
			t.Errorf("the %s plane trusts %v, want its CA %s", plane, role.Trusts, want)
		}
		if _, carried := report.Certificates[role.Presents]; !carried {
			t.Errorf("the certificate of the %s plane is not in the report", plane)
		}
	}
	if got := report.Roles[contract.PeerPlane.Role()].Presents; got != pki.FingerprintOf(leaf).String() || report.Revision != 1 || report.Mounted == nil {
		t.Errorf("report %+v, want the peer plane's certificate and revision 1", report)
	}
	status, metrics, err := r.ask(t.Context(), t, agent.MetricsPath, client(t, r.CAs[contract.ClientPlane], contract.OperatorOrganization))
	if err != nil || status != http.StatusOK || !strings.Contains(metrics, `keyturn_agent_certificate_expiry_timestamp_seconds{listener="peer"}`) {
		t.Errorf("status %d, %v, metrics %q", status, err, metrics)
	}
}

func TestOnlyTheOperatorIsAnswered(t *testing.T) {
	t.Parallel()
	r := played(t, &health{})
	r.enrol(t)
	r.untilReady(t)
	const noAnswer = 0
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		status       int
	}{
		"the operator":                     {[]tls.Certificate{client(t, r.CAs[contract.ClientPlane], contract.OperatorOrganization)}, http.StatusOK},
		"another client of the cluster":    {[]tls.Certificate{client(t, r.CAs[contract.ClientPlane], "")}, http.StatusForbidden},
		"a client of another organization": {[]tls.Certificate{client(t, r.CAs[contract.ClientPlane], "example")}, http.StatusForbidden},
		"the operator by the peer CA":      {[]tls.Certificate{client(t, r.CAs[contract.PeerPlane], contract.OperatorOrganization)}, noAnswer},
		"a client without a certificate":   {nil, noAnswer},
	} {
		if status, _, err := r.ask(t.Context(), t, agent.TLSPath, c.certificates...); status != c.status {
			t.Errorf("%s: status %d, %v; want %d", name, status, err, c.status)
		}
	}
}

func TestAnAgentWithMountedCertificatesAsksForNothingAndServesTheKubeletAlone(t *testing.T) {
	t.Parallel()
	h := &health{}
	h.learner.Store(true)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := startAs(t, etcdagent.RunMounted, server.URL, []string{etcdMode + "=played"}, func(*agenttest.Pod) []string { return []string{program} })
	r.until(t, "not ready as a learner", func(ctx context.Context) bool {
		ready, body := r.ready(ctx)
		return !ready && strings.Contains(body, "learner")
	})
	h.learner.Store(false)
	r.untilReady(t)
	if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.options.SecureAddress); err == nil {
		_ = connection.Close()
		t.Error("it listens for the operator")
	}
	for _, plane := range contract.Planes() {
		if r.Request(t, plane) != nil {
			t.Errorf("it asks for a certificate of the %s plane", plane)
		}
	}
	r.cancel()
	checkCode(t, <-r.ended, 0)
}

func TestLearnerIsNotReady(t *testing.T) {
	t.Parallel()
	h := &health{}
	h.learner.Store(true)
	r := played(t, h)
	r.enrol(t)
	r.until(t, "not ready as a learner", func(ctx context.Context) bool {
		ready, body := r.ready(ctx)
		return !ready && strings.Contains(body, "learner")
	})
	h.learner.Store(false)
	r.untilReady(t)
}

func TestMemberThatDoesNotServeIsNotReady(t *testing.T) {
	t.Parallel()
	h := &health{}
	h.broken.Store(true)
	r := played(t, h)
	r.enrol(t)
	r.until(t, "not ready", func(ctx context.Context) bool {
		ready, body := r.ready(ctx)
		return !ready && strings.Contains(body, agent.ReasonStarting) && strings.Contains(body, "Service Unavailable")
	})
	h.broken.Store(false)
	r.untilReady(t)
}

func TestOldEtcdIsAskedForItsHealth(t *testing.T) {
	t.Parallel()
	r := played(t, &health{old: true})
	r.enrol(t)
	r.untilReady(t)
}

func TestAgentEndsAsEtcdDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*running)
		code int
	}{
		"etcd fails":       {func(r *running) { r.signals <- syscall.SIGUSR1 }, refused},
		"etcd is stopped":  {func(r *running) { r.signals <- syscall.SIGTERM }, 0},
		"the context ends": {func(r *running) { r.cancel() }, 0},
		"etcd is killed":   {func(r *running) { r.signals <- syscall.SIGKILL }, 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := played(t, &health{})
			r.enrol(t)
			r.until(t, "etcd runs", func(context.Context) bool { return strings.Contains(r.log.String(), "etcd runs") })
			c.end(r)
			checkCode(t, <-r.ended, c.code)
		})
	}
}

func TestAgentThatIsStoppedWhileItWaitsHasNotStartedEtcd(t *testing.T) {
	t.Parallel()
	r := played(t, &health{})
	r.until(t, "a request", func(context.Context) bool { return r.Request(t, contract.PeerPlane) != nil })
	r.cancel()
	checkCode(t, <-r.ended, process.Terminated)
	if strings.Contains(r.log.String(), "etcd runs") {
		t.Error("etcd was started")
	}
}

func checkCode(t *testing.T, err error, want int) {
	t.Helper()
	got := 0
	if exit, ok := errors.AsType[*process.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func keyPEM(t *testing.T, certificate tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return encode("PRIVATE KEY", der)
}
