package scenarios

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/publication"
)

// adminContract holds the operator's client against the contract that its fake
// fulfils.
func adminContract(s *stage) {
	s.onShared()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	topics, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer topics.Close()
	resource, err := s.kafka.Resource(s.ctx)
	s.must(err)
	client, err := s.kafka.OperatorClient(opened)
	s.must(err)
	defer client.Close()
	absent, err := admin.Open(admin.Options{
		// An address of TEST-NET-1: nobody is there.
		Brokers: []string{"192.0.2.1:9091"}, Controllers: []string{"192.0.2.1:9090"},
		Dial: (&net.Dialer{}).DialContext, Credentials: s.kafka.Credentials, Now: time.Now,
		Timeout: time.Second, DialTimeout: time.Second,
	})
	s.must(err)
	defer absent.Close()
	s.Run("contract", func(t *testing.T) {
		admintest.Run(t, func(*testing.T) admintest.Subject {
			return admintest.Subject{
				Client: client, ClusterID: resource.Status.ClusterId, Nodes: []int32{0, 1, 2},
				CreateTopic: topics.CreateTopicOf, Unreachable: absent,
			}
		})
	})
}

// agentsTellTheTruth holds what agents report against what handshakes show.
func agentsTellTheTruth(s *stage) {
	s.onShared()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	credentials, err := s.kafka.Credentials(s.ctx)
	s.must(err)
	agents := agentclient.New(agentclient.Options{
		Dial: opened.Network().Dial, Credentials: s.kafka.Credentials, Now: time.Now, Timeout: 10 * time.Second,
	})
	anchors := s.anchors()
	for _, node := range opened.Network().Nodes() {
		report, err := agents.TLS(s.ctx, agentclient.Node{Address: net.JoinHostPort(node.Host, "8443"), Name: node.Host})
		s.must(err)
		if len(report.Roles) < 6 {
			s.Errorf("the agent of %s reports %d roles, to be 5 listeners and its own", node.Name, len(report.Roles))
		}
		for role, port := range map[publication.Role]int32{
			"controlplane-9090": 9090, "replication-9091": 9091, "tls-9093": 9093, "mtls-9094": 9094, "scram-9095": 9095, publication.AgentRole: 8443,
		} {
			s.compare(node, role, report.Roles[role], shows(s.ctx, opened, credentials, hostPort(node.Host, port)), anchors)
		}
	}
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

// shown is what a handshake shows of a server.
type shown struct {
	leaf    string
	accepts [][]byte
	err     error
}

// shows connects with the operator's identity, and looks.
func shows(ctx context.Context, opened *target.Target, credentials mtls.Credentials, address string) shown {
	var seen shown
	raw, err := opened.Network().Dial(ctx, "tcp", address)
	if err != nil {
		return shown{err: err}
	}
	defer func() { _ = raw.Close() }() // nothing is written
	roots := x509.NewCertPool()
	for _, anchor := range credentials.Anchors {
		roots.AddCert(anchor)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return shown{err: err}
	}
	connection := tls.Client(raw, &tls.Config{
		RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			seen.accepts = request.AcceptableCAs
			return &credentials.Identity, nil
		},
	})
	if seen.err = connection.HandshakeContext(ctx); seen.err == nil {
		seen.leaf = mtls.Fingerprint(connection.ConnectionState().PeerCertificates[0].Raw)
	}
	return seen
}

// compare holds a report against a handshake.
func (s *stage) compare(node reach.Node, role publication.Role, reported publication.RoleReport, seen shown, anchors map[string][]byte) {
	s.Helper()
	where := fmt.Sprintf("%s, %s", node.Name, role)
	if seen.err != nil {
		s.Errorf("%s: handshake: %v", where, seen.err)
		return
	}
	if reported.Presents != seen.leaf {
		s.Errorf("%s: presents %s, and its agent says %s", where, seen.leaf, reported.Presents)
	}
	if len(seen.accepts) == 0 {
		return // neither a listener without client certificates nor an agent says whom it accepts
	}
	var wanted []string
	for _, fingerprint := range reported.Trusts {
		wanted = append(wanted, string(anchors[fingerprint]))
	}
	var accepted []string
	for _, subject := range seen.accepts {
		accepted = append(accepted, string(subject))
	}
	slices.Sort(wanted)
	slices.Sort(accepted)
	if !slices.Equal(slices.Compact(wanted), slices.Compact(accepted)) {
		s.Errorf("%s: accepts %q, and its agent says %q", where, accepted, wanted)
	}
}

// anchors are the subjects of all trusted certificates, by SHA-256.
func (s *stage) anchors() map[string][]byte {
	s.Helper()
	subjects := map[string][]byte{}
	for _, name := range []string{"my-cluster-cluster-ca-trusted-certs", "my-cluster-clients-ca-trusted-certs"} {
		secret := &corev1.Secret{}
		s.must(s.kube.Get(s.ctx, s.kafka.Key(name), secret))
		for key, text := range secret.Data {
			if strings.HasSuffix(key, ".crt") {
				certificates, err := pki.ParseBundle(text)
				s.must(err)
				for _, certificate := range certificates {
					subjects[pki.FingerprintOf(certificate).String()] = certificate.RawSubject
				}
			}
		}
	}
	return subjects
}
