package scenarios

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/reporttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/publication"
)

// agentContract holds the agent of a node to the suite that the stand-in of the API tests
// fulfils. The operator is paused meanwhile, and the suite publishes in its place; the
// cluster has one node, so that nobody else has to understand it.
func agentContract(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	one := int64(1)
	s.must(errors.Join(small(manifest), manifest.Set("KafkaNodePool", "dual-role", one, "spec", "replicas")))
	for _, key := range []string{
		"default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor",
		"transaction.state.log.replication.factor", "transaction.state.log.min.isr",
	} {
		s.must(manifest.Set("Kafka", clusterName, one, "spec", "kafka", "config", key))
	}
	s.create(manifest)
	s.step("paused", func() error {
		if err := s.annotate(pauseRequest, "true"); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "is paused", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.ReconciliationPaused)
		})
	})
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	m := &member{s: s, node: opened.Network().Nodes()[0]}
	m.agents = agentclient.New(agentclient.Options{
		Dial: opened.Network().Dial, Credentials: s.kafka.Credentials, Now: time.Now, Timeout: 10 * time.Second,
	})
	s.Run("contract", func(t *testing.T) { reporttest.Run(t, m.subject) })
}

// member is a node to which the suite publishes.
type member struct {
	s      *stage
	node   reach.Node
	agents *agentclient.Client
	// leaves are those that the node's agent has ever been given.
	leaves []string
}

func (m *member) clusterTrust() string { return clusterCA + "-trusted-certs" }

func (m *member) subject(t *testing.T) reporttest.Subject {
	t.Helper()
	signer, err := m.s.kafka.Signer(t.Context(), harness.ClusterCA)
	if err != nil {
		t.Fatal(err)
	}
	own := m.s.secret(m.node.Name)
	mounted := stores.Mounted{Node: own.Data, ClusterTrust: m.s.secret(m.clusterTrust()).Data}
	chain, err := pki.ParseBundle(own.Data[m.node.Name+".crt"])
	if err != nil {
		t.Fatal(err)
	}
	m.leaves = []string{pki.FingerprintOf(chain[0]).String()}
	return reporttest.Subject{
		Report: m.report, Name: m.node.Name, Names: chain[0].DNSNames, Signer: signer,
		Cluster: []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener}, Clients: "mtls-9094",
		Mounted: mounted, Mount: m.mount, Work: func() {}, Restart: m.restart, Now: time.Now,
	}
}

func (m *member) report(ctx context.Context) (publication.Report, error) {
	return m.agents.TLS(ctx, agentclient.Node{
		Address: net.JoinHostPort(m.node.Host, "8443"), Name: m.node.Host, Leaves: slices.Clone(m.leaves),
	})
}

// mount writes what the kubelet is to mount.
func (m *member) mount(t *testing.T, content stores.Mounted) {
	t.Helper()
	if chain, err := pki.ParseBundle(content.Node[m.node.Name+".crt"]); err == nil {
		m.leaves = append(m.leaves, pki.FingerprintOf(chain[0]).String())
	}
	for name, directory := range map[string]stores.Directory{m.node.Name: content.Node, m.clusterTrust(): content.ClusterTrust} {
		if directory == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := m.s.kube.Get(t.Context(), m.s.kafka.Key(name), secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = directory
		if err := m.s.kube.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
}

// restart ends the server's container in its pod, and waits for another.
func (m *member) restart(t *testing.T) {
	t.Helper()
	back, err := m.s.kafka.HoldDown(t.Context(), m.node.Name)
	if err == nil {
		err = back()
	}
	if err != nil {
		t.Fatal(err)
	}
}
