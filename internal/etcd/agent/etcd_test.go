package agent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/agenttest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// etcdHomes names the releases of etcd that tests may use: directories with etcd and
// etcdctl, separated by colons.
const etcdHomes = "KEYTURN_ETCD_HOMES"

// member is an agent that runs a real etcd.
type member struct {
	*running

	home      string
	addresses map[contract.Plane]string
}

func startMember(t *testing.T, home string) *member {
	t.Helper()
	m := &member{home: home, addresses: map[contract.Plane]string{contract.PeerPlane: free(t), contract.ClientPlane: free(t)}}
	metrics := "http://" + free(t)
	client, peer := "https://"+m.addresses[contract.ClientPlane], "https://"+m.addresses[contract.PeerPlane]
	m.running = start(t, metrics, nil, func(pod *agenttest.Pod) []string {
		pod.Start(t, contract.Start{IsFirst: true, Members: map[string]string{podName: peer}})
		file := func(plane contract.Plane, name string) string { return filepath.Join(pod.RunDir, string(plane), name) }
		return []string{
			filepath.Join(home, "etcd"), "--name=" + podName, "--data-dir=" + dataOf(pod),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--listen-metrics-urls=" + metrics, "--enable-grpc-gateway=false",
			"--client-cert-auth", "--cert-file=" + file(contract.ClientPlane, contract.CertificateFile),
			"--key-file=" + file(contract.ClientPlane, contract.KeyFile), "--trusted-ca-file=" + file(contract.ClientPlane, contract.AnchorsFile),
			"--peer-client-cert-auth", "--peer-cert-file=" + file(contract.PeerPlane, contract.CertificateFile),
			"--peer-key-file=" + file(contract.PeerPlane, contract.KeyFile), "--peer-trusted-ca-file=" + file(contract.PeerPlane, contract.AnchorsFile),
		}
	})
	return m
}

// presented returns the fingerprint of the certificate that etcd presents in the plane.
func (m *member) presented(ctx context.Context, plane contract.Plane) string {
	presented := ""
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			presented = pki.FingerprintOf(state.PeerCertificates[0]).String()
			return nil
		},
	}}
	if conn, err := dialer.DialContext(ctx, "tcp", m.addresses[plane]); err == nil {
		_ = conn.Close()
	}
	return presented
}

// connect asks etcd for its version in the plane.
func (m *member) connect(t *testing.T, plane contract.Plane, certificates ...tls.Certificate) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(m.CAs[plane].Certificate())
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+m.addresses[plane]+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d, %w", response.StatusCode, err)
	}
	return err
}

// etcdctl runs etcdctl as a client with the certificate.
func (m *member) etcdctl(t *testing.T, certificate tls.Certificate, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]byte{
		"ca.crt":  pki.EncodeBundle(m.CAs[contract.ClientPlane].Certificate()),
		"tls.crt": encode("CERTIFICATE", certificate.Certificate[0]), "tls.key": keyPEM(t, certificate),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args = append([]string{
		"--endpoints=https://" + m.addresses[contract.ClientPlane], "--cacert=" + filepath.Join(dir, "ca.crt"),
		"--cert=" + filepath.Join(dir, "tls.crt"), "--key=" + filepath.Join(dir, "tls.key"), "--dial-timeout=3s", "--command-timeout=5s",
	}, args...)
	output, err := exec.CommandContext(t.Context(), filepath.Join(m.home, "etcdctl"), args...).CombinedOutput()
	return string(output), err
}

func TestRealEtcd(t *testing.T) {
	t.Parallel()
	homes := filepath.SplitList(os.Getenv(etcdHomes))
	if len(homes) == 0 {
		t.Skipf("no etcd in $%s", etcdHomes)
	}
	for _, home := range homes {
		version, err := exec.CommandContext(t.Context(), filepath.Join(home, "etcd"), "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(string(version), "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startMember(t, home)
			m.enrol(t)
			m.untilReady(t)
			t.Run("clients of the client CA are served", func(t *testing.T) { m.serves(t) })
			t.Run("clients of no or another CA are refused", func(t *testing.T) { m.refuses(t) })
			t.Run("another certificate for the key is presented without a restart", func(t *testing.T) { m.renews(t) })
			t.Run("CAs are replaced in the pod, with its keys and its data", func(t *testing.T) { m.replacesCAs(t) })
			t.Run("etcd is not started again without its data", func(t *testing.T) { m.startsNoMore(t) })
			t.Run("the agent ends with etcd", func(t *testing.T) {
				m.cancel()
				if err := <-m.ended; err != nil && !strings.Contains(err.Error(), "143") { // etcd repeats the signal to itself
					t.Errorf("%v; the log:\n%s", err, m.log)
				}
			})
		})
	}
}

func (m *member) serves(t *testing.T) {
	t.Helper()
	c := client(t, m.CAs[contract.ClientPlane], "")
	if output, err := m.etcdctl(t, c, "put", "key", "value"); err != nil || !strings.Contains(output, "OK") {
		t.Errorf("%v: %s", err, output)
	}
	if output, err := m.etcdctl(t, c, "get", "key"); err != nil || output != "key\nvalue\n" {
		t.Errorf("%v: %s", err, output)
	}
	for _, plane := range contract.Planes() {
		if err := m.connect(t, plane, client(t, m.CAs[plane], "")); err != nil {
			t.Errorf("a client of the %s plane in its own plane: %v", plane, err)
		}
	}
}

func (m *member) refuses(t *testing.T) {
	t.Helper()
	other := map[contract.Plane]contract.Plane{contract.PeerPlane: contract.ClientPlane, contract.ClientPlane: contract.PeerPlane}
	for _, plane := range contract.Planes() {
		if err := m.connect(t, plane, client(t, m.CAs[other[plane]], "")); err == nil {
			t.Errorf("a client of the %s plane is served in the %s plane", other[plane], plane)
		}
		if err := m.connect(t, plane); err == nil {
			t.Errorf("a client without a certificate is served in the %s plane", plane)
		}
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", m.addresses[plane])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n")
		if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "etcdserver") {
			t.Errorf("plain text is served in the %s plane: %q", plane, answer)
		}
		_ = conn.Close()
	}
	if output, err := m.etcdctl(t, client(t, m.CAs[contract.PeerPlane], ""), "get", "key"); err == nil {
		t.Errorf("a client of the peer CA reads %q", output)
	}
}

func (m *member) renews(t *testing.T) {
	t.Helper()
	before := m.report(t.Context(), t)
	for _, plane := range contract.Planes() {
		old := m.presented(t.Context(), plane)
		if old != before.Roles[plane.Role()].Presents {
			t.Errorf("the %s plane presents %s, and %s is reported", plane, old, before.Roles[plane.Role()].Presents)
		}
		renewed := pki.FingerprintOf(m.Sign(t, plane, time.Now())).String()
		m.until(t, "the renewed certificate is presented", func(ctx context.Context) bool { return m.presented(ctx, plane) == renewed })
		if got := m.report(t.Context(), t).Roles[plane.Role()].Presents; got != renewed {
			t.Errorf("%s is reported in the %s plane, want the renewed certificate", got, plane)
		}
	}
	if after := m.report(t.Context(), t); !after.StartedAt.Equal(before.StartedAt) {
		t.Error("etcd was restarted")
	}
	m.serves(t)
}
