package application

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// log is written by the client and read by the test.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// mutualKafka speaks Kafka's protocol over mutual TLS in this process.
type mutualKafka struct {
	addresses string
	mu        sync.Mutex
	clients   *x509.CertPool
}

func startKafka(t *testing.T, cluster, clients pki.Authority) *mutualKafka {
	t.Helper()
	certificate, key := issue(t, cluster, "broker", pki.ServerAuth, "127.0.0.1")
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	k := &mutualKafka{}
	k.accept(clients)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		present := config.Clone()
		present.GetConfigForClient, present.ClientAuth, present.ClientCAs = nil, tls.RequireAndVerifyClientCert, k.clients
		return present, nil
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	k.addresses = strings.Join(fake.ListenAddrs(), ",")
	return k
}

// accept lets new connections in with certificates of some authorities alone.
func (k *mutualKafka) accept(authorities ...pki.Authority) {
	pool := x509.NewCertPool()
	for _, authority := range authorities {
		pool.AddCert(authority.Certificate())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clients = pool
}

// running is a client that runs in this process.
type running struct {
	*client

	out, log *log
	stop     func() (Account, error)
}

func startClient(t *testing.T, directory string) *running {
	t.Helper()
	r := &running{out: &log{}, log: &log{}}
	r.client = newClient(Options{
		Directory: directory, Topic: probe.Topic{Name: "orders", Partitions: 2, Replicas: 1, Retention: time.Hour},
		Interval: 5 * time.Millisecond, ReportEvery: 50 * time.Millisecond, Listen: "127.0.0.1:0", Name: "pod",
		Out: r.out, Log: r.log, Clock: clock.RealClock{},
	})
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		account Account
		err     error
	}
	ended := make(chan end, 1)
	go func() {
		account, err := r.run(ctx)
		ended <- end{account, err}
	}()
	r.stop = func() (Account, error) {
		cancel()
		e := <-ended
		return e.account, e.err
	}
	return r
}

func (r *running) await(t *testing.T, what string, wanted func(Account) bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !wanted(r.account()) {
		select {
		case <-limit.C:
			t.Fatalf("it is never %s; the log says\n%s\nand the account\n%+v", what, r.log, r.account())
		case <-ticker.C:
		}
	}
}

func (r *running) get(path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	r.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return answer
}

func TestAnApplicationWorksWithTheMountedSecretAlone(t *testing.T) {
	t.Parallel()
	cluster, old, next := makeCA(t, "cluster-ca"), makeCA(t, "clients-ca v0"), makeCA(t, "clients-ca v1")
	kafka, directory := startKafka(t, cluster, old), t.TempDir()
	before := mutual(t, cluster, old, kafka.addresses)
	after := mutual(t, cluster, next, kafka.addresses)
	secret{}.mount(t, directory, "..v0")

	r := startClient(t, directory)
	r.await(t, "waiting for the Secret", func(a Account) bool { return strings.Contains(a.Waiting, "bootstrap.servers") })
	if health := r.get("/healthz"); health.Code != http.StatusServiceUnavailable || !strings.Contains(health.Body.String(), "is missing") {
		t.Errorf("before the Secret is there, /healthz says %d %q", health.Code, health.Body)
	}
	before.mount(t, directory, "..v1")
	r.await(t, "working", func(a Account) bool { return a.Received > 20 && a.Fresh.Accepted > 0 })
	if health := r.get("/healthz"); health.Code != http.StatusOK {
		t.Errorf("while it works, /healthz says %d %q", health.Code, health.Body)
	}
	kafka.accept(old, next)
	after.mount(t, directory, "..v2")
	r.await(t, "presenting the new certificate", func(a Account) bool { return a.Changes == 1 })
	kafka.accept(next)
	accepted := r.account().Fresh.Accepted
	r.await(t, "accepted with the new certificate", func(a Account) bool { return a.Fresh.Accepted > accepted+1 })

	var served Account
	if err := json.Unmarshal(r.get("/account").Body.Bytes(), &served); err != nil || served.Received == 0 || served.Presented == nil {
		t.Errorf("/account says %+v, error %v", served, err)
	}
	account, err := r.stop()
	if err != nil || account.Harmed() || !account.Complete || !account.Final || account.Sent != account.Received {
		t.Errorf("it ends with %v and\n%+v", err, account)
	}
	if account.Presented.Subject != "CN=my-user" || account.SecurityProtocol != protocolTLS || len(account.Trusted) != 1 {
		t.Errorf("the account does not say what it connects with: %+v", account)
	}
	r.printed(t, before, after)
}

// printed are accounts as lines, and nothing of a key.
func (r *running) printed(t *testing.T, secrets ...secret) {
	t.Helper()
	var last Account
	lines := bufio.NewScanner(strings.NewReader(r.out.String()))
	for lines.Scan() {
		last = Account{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Errorf("line %q is no account: %v", lines.Text(), err)
		}
	}
	if !last.Final {
		t.Error("the last line is not the final account")
	}
	for _, s := range secrets {
		if reveals(r.out.String()+r.log.String(), s[fileKey]) {
			t.Error("the output reveals key material")
		}
	}
}

func TestARejectedCertificateIsCountedWithItsReason(t *testing.T) {
	t.Parallel()
	cluster, clients, others := makeCA(t, "cluster-ca"), makeCA(t, "clients-ca"), makeCA(t, "others")
	kafka := startKafka(t, cluster, clients)
	tests := map[string]struct {
		of      secret
		reason  verdict.Reason
		waiting string
	}{
		"by the server": {mutual(t, cluster, others, kafka.addresses), verdict.AlertUnknownCA, " rejected the client (alert: unknown authority): check that the KafkaUser is Ready and belongs to this Kafka"},
		"by the client": {mutual(t, others, clients, kafka.addresses), verdict.UnknownAuthority, "the client rejected " + kafka.addresses + " (unknown authority): check that the KafkaAccess is Ready and that its whole Secret is mounted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			test.of.mount(t, directory, "..v1")
			r := startClient(t, directory)
			r.await(t, "refused", func(a Account) bool {
				return a.RefusedBecause[test.reason] > 0 && strings.HasSuffix(a.Waiting, test.waiting)
			})
			account, err := r.stop()
			if !errors.Is(err, ErrNotStarted) || !account.Harmed() || account.Sent > 0 {
				t.Errorf("it ends with %v and %+v", err, account)
			}
			r.printed(t, test.of)
		})
	}
}

func TestAClientGoesOnAfterItWasRejected(t *testing.T) {
	t.Parallel()
	cluster, clients, others := makeCA(t, "cluster-ca"), makeCA(t, "clients-ca"), makeCA(t, "others")
	kafka, directory := startKafka(t, cluster, clients), t.TempDir()
	mutual(t, cluster, clients, kafka.addresses).mount(t, directory, "..v1")
	r := startClient(t, directory)
	r.await(t, "working", func(a Account) bool { return a.Received > 0 })
	kafka.accept(others)
	r.await(t, "refused", func(a Account) bool { return a.Fresh.Refused > 0 })
	received := r.account().Received
	r.await(t, "still working on its open connections", func(a Account) bool { return a.Received > received+20 })
	kafka.accept(clients)
	account, err := r.stop()
	if err != nil || !account.Complete || account.RefusedBecause[verdict.AlertUnknownCA] == 0 || account.Lost > 0 || account.GivenUp > 0 || !account.Harmed() {
		t.Errorf("it ends with %v and\n%+v", err, account)
	}
}

func TestAnUnreachableClusterIsWaitedForAndIsNoRefusal(t *testing.T) {
	t.Parallel()
	ca, directory := makeCA(t, "ca"), t.TempDir()
	mutual(t, ca, ca, "127.0.0.1:1").mount(t, directory, "..v1")
	r := startClient(t, directory)
	r.await(t, "waiting", func(a Account) bool { return a.Fresh.Unreachable > 1 })
	account, err := r.stop()
	if !errors.Is(err, ErrNotStarted) || account.Harmed() || !strings.Contains(message(err), "127.0.0.1:1 cannot be reached (connection refused)") {
		t.Errorf("it ends with %v and %+v", err, account)
	}
	if said := strings.Count(r.log.String(), "waiting: "); said != 1 {
		t.Errorf("it says %d times what it waits for:\n%s", said, r.log)
	}
}

func TestAMissingMountEndsTheClient(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Options{Directory: t.TempDir() + "/none", Clock: clock.RealClock{}})
	if !errors.Is(err, ErrNoDirectory) {
		t.Errorf("it ends with %v", err)
	}
}
