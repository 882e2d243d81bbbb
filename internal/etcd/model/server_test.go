package model_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/freeport"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// programs is the environment variable that names folders with etcd, separated by colons; make server-test sets it.
const programs = "KEYTURN_ETCD_HOMES"

// The flags of a member, on certificates as the operator signs them: the operator gets in, and nobody else does.
func TestEtcdStartsWithTheFlagsOfAMember(t *testing.T) {
	t.Parallel()
	folders := filepath.SplitList(os.Getenv(programs))
	if len(folders) == 0 {
		t.Skip(programs + " names no folder with etcd")
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			m := startMember(t, filepath.Join(folder, "etcd"), model.Start{Version: versionOf(folder), IsFirst: true, Members: []string{"my-cluster-0"}})
			t.Cleanup(func() { _ = m.server.Wait() })
			if members, err := m.members(t, m.operator(t)); err != nil || len(members) != 1 || members[0].Name != m.name {
				t.Fatalf("the operator sees %+v, %v", members, err)
			}
			for path, says := range map[string]string{"/metrics": "etcd_mvcc_db_total_size_in_bytes", "/health": `"health":"true"`} {
				if text, err := m.scrape(t, path, m.operator(t)); err != nil || !strings.Contains(text, says) {
					t.Errorf("%s answers %q, %v", path, text, err)
				}
			}
			other := pkitest.CA(t, "other", time.Now())
			for name, identity := range map[string]*tls.Certificate{
				"nobody":                     nil,
				"a member by its client CA":  m.leaf(t, contract.ClientPlane),
				"a member by its peer CA":    m.leaf(t, contract.PeerPlane),
				"an operator of another CA":  issue(t, other, m.cluster.OperatorLeaf(time.Now())),
				"an operator by the peer CA": issue(t, m.cas[contract.PeerPlane], m.cluster.OperatorLeaf(time.Now())),
			} {
				if _, err := m.members(t, identity); err == nil {
					t.Errorf("%s is let in", name)
				}
				if text, err := m.scrape(t, "/metrics", identity); err == nil {
					t.Errorf("%s gets metrics: %q", name, text)
				}
			}
		})
	}
}

// member is a running member.
type member struct {
	cluster model.Cluster
	name    string
	dir     string
	url     string
	// scrapeURL is where it serves metrics to clients.
	scrapeURL string
	cas       map[contract.Plane]pki.Authority
	server    *exec.Cmd
}

// versionOf is the version of etcd in a folder.
func versionOf(folder string) string {
	if strings.HasPrefix(filepath.Base(folder), "etcd35") {
		return "3.5.35"
	}
	return "3.6.16"
}

func startMember(t *testing.T, program string, start model.Start) *member {
	t.Helper()
	cluster, _ := model.Resolve(three(t), settings())
	m := &member{cluster: cluster, name: "my-cluster-0", dir: t.TempDir(), cas: map[contract.Plane]pki.Authority{}}
	for _, plane := range contract.Planes() {
		m.cas[plane] = pkitest.CA(t, string(plane), time.Now())
		m.enroll(t, plane)
	}
	pod, err := cluster.Pod(m.name, start, "{}")
	if err != nil {
		t.Fatal(err)
	}
	told, err := contract.ParseStart(pod.Annotations[contract.StartAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(strings.Join(pod.Spec.Containers[0].Command, "\n"), "\n--\n")
	changes := []string{agent.RunDir, m.dir, "/var/etcd", m.dir, cluster.Names.Host(m.name), "127.0.0.1", "0.0.0.0", "127.0.0.1"}
	for _, port := range []int{contract.ClientPort, contract.PeerPort, contract.MetricsPort, contract.ScrapePort, 2382} {
		changes = append(changes, ":"+strconv.Itoa(port), ":"+free(t))
		if port == contract.ClientPort {
			m.url = "https://127.0.0.1" + changes[len(changes)-1]
		}
		if port == contract.ScrapePort {
			m.scrapeURL = "https://127.0.0.1" + changes[len(changes)-1]
		}
	}
	command += "\n" + strings.Join(told.Flags(), "\n")
	arguments := strings.Split(strings.NewReplacer(changes...).Replace(command), "\n")
	m.server = exec.CommandContext(t.Context(), program, append(arguments[1:], "--log-level=fatal")...)
	m.server.Stderr = os.Stderr
	if err := m.server.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

func free(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeport.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// enroll does what agent and operator do for a plane.
func (m *member) enroll(t *testing.T, plane contract.Plane) {
	t.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.NewRequest(key, pki.Subject{CommonName: m.name}, pki.SANs{})
	if err != nil {
		t.Fatal(err)
	}
	sans, err := m.cluster.SANs(plane, m.name, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	signed, isSigned := enroll.Decide(enroll.Input{
		IsAttested: true, Pod: enroll.Pod{Name: m.name, UID: "a", Recorded: "a", HasAddress: true},
		Plane: plane, Request: base64.StdEncoding.EncodeToString(request),
		SANs: sans, Usages: model.Usages(plane), Validity: time.Hour, CA: m.cas[plane], Now: time.Now(),
	}).(enroll.Signed)
	if !isSigned {
		t.Fatal("the request is not signed")
	}
	dir := filepath.Join(m.dir, string(plane))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		contract.CertificateFile: pki.EncodeBundle(signed.Leaf), contract.KeyFile: key.PEM(),
		contract.AnchorsFile: pki.EncodeBundle(m.cas[plane].Certificate()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *member) operator(t *testing.T) *tls.Certificate {
	t.Helper()
	return issue(t, m.cas[contract.ClientPlane], m.cluster.OperatorLeaf(time.Now()))
}

// leaf is the certificate of the member itself.
func (m *member) leaf(t *testing.T, plane contract.Plane) *tls.Certificate {
	t.Helper()
	dir := filepath.Join(m.dir, string(plane))
	leaf, err := tls.LoadX509KeyPair(filepath.Join(dir, contract.CertificateFile), filepath.Join(dir, contract.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return &leaf
}

func issue(t *testing.T, ca pki.Authority, spec pki.LeafSpec) *tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}
}

// config is how a client with an identity, or with none, connects.
func (m *member) config(identity *tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(m.cas[contract.ClientPlane].Certificate())
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if identity != nil {
		config.Certificates = []tls.Certificate{*identity}
	}
	return config
}

// scrape is what Prometheus gets with a certificate.
func (m *member) scrape(t *testing.T, path string, identity *tls.Certificate) (string, error) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: m.config(identity)}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.scrapeURL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// members asks etcd as a client with an identity, or with none.
func (m *member) members(t *testing.T, identity *tls.Certificate) ([]admin.Member, error) {
	t.Helper()
	client, err := admin.New(t.Context(), []string{m.url}, m.config(identity))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	return client.Members(t.Context())
}
