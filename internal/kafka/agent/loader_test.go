package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
	kafkaagent "github.com/keyturn/keyturn/internal/kafka/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// fakeKafka is the replication listener of a broker that takes part, and loads
// the stores that it is told to.
type fakeKafka struct {
	address string
	// properties is the file that the broker was started with.
	properties string

	mu       sync.Mutex
	identity tls.Certificate
	anchors  *x509.CertPool
	dynamic  map[string]string
	// refuses makes it accept no change.
	refuses bool
}

func newFakeKafka(t *testing.T, p *pod) *fakeKafka {
	t.Helper()
	k := &fakeKafka{identity: server.Certificate(p.node), anchors: x509.NewCertPool(), dynamic: map[string]string{}}
	k.anchors.AddCert(p.ca.Certificate())
	k.address = wiretest.Serve(t, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return &tls.Config{
			Certificates: []tls.Certificate{k.identity}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: k.anchors,
		}, nil
	}}, k.answer)
	return k
}

func (k *fakeKafka) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, k.address)
}

func (k *fakeKafka) refuse(refuses bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuses = refuses
}

func (k *fakeKafka) answer(req kmsg.Request) kmsg.Response {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch r := req.(type) {
	case *kmsg.DescribeClusterRequest:
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: 4}}
		return resp
	case *kmsg.ApiVersionsRequest:
		return kmsg.NewPtrApiVersionsResponse()
	case *kmsg.DescribeConfigsRequest:
		return k.describe(r.Resources[0].ConfigNames)
	case *kmsg.IncrementalAlterConfigsRequest:
		return k.alter(r)
	default:
		return nil
	}
}

func (k *fakeKafka) describe(names []string) kmsg.Response {
	static, err := os.ReadFile(k.properties)
	if err != nil {
		return nil
	}
	resource := kmsg.NewDescribeConfigsResponseResource()
	for _, name := range names {
		config := kmsg.NewDescribeConfigsResponseResourceConfig()
		config.Name = name
		for line := range strings.Lines(string(static)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
				config.Value = &value
			}
		}
		if value, ok := k.dynamic[name]; ok {
			config.Value = &value
			config.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
				{Name: name, Value: &value, Source: kmsg.ConfigSourceDynamicBrokerConfig},
			}
		}
		resource.Configs = append(resource.Configs, config)
	}
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Resources = append(resp.Resources, resource)
	return resp
}

func (k *fakeKafka) alter(req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resource := kmsg.NewIncrementalAlterConfigsResponseResource()
	if k.refuses {
		resource.ErrorCode, resource.ErrorMessage = kerr.InvalidRequest.Code, new("not these")
	}
	for _, config := range req.Resources[0].Configs {
		if k.refuses || req.ValidateOnly {
			break
		}
		k.dynamic[config.Name] = *config.Value
		data, err := os.ReadFile(*config.Value)
		switch {
		case err != nil: // it is no location
		case strings.Contains(config.Name, "keystore"):
			if k.identity, err = tls.X509KeyPair(data, data); err != nil {
				return nil
			}
		default:
			k.anchors = x509.NewCertPool()
			k.anchors.AppendCertsFromPEM(data)
		}
	}
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Resources = append(resp.Resources, resource)
	return resp
}

// publish mounts the next revision with the identity and the anchors.
func (r *running) publish(t *testing.T, identity stores.Identity, anchors ...*x509.Certificate) {
	t.Helper()
	r.publication.Revision++
	r.publication.Identities = map[string]string{publication.NodeIdentity: identity.Fingerprint()}
	trusts := agenttest.Fingerprints(anchors...)
	r.publication.Trust = map[publication.Role][]string{publication.AgentRole: trusts, contract.ReplicationListener: trusts}
	r.publication.Chain = agenttest.Fingerprints(identity.Chain[1:]...)
	r.node = identity
	agenttest.PutIdentity(r.Node, podName, identity)
	agenttest.PutPublication(t, r.Node, r.publication)
	mounttest.WriteVolume(t, r.options.Mounts.Node, r.Node)
	mounttest.WriteVolume(t, r.options.Mounts.ClusterTrust, agenttest.TrustDirectory(anchors...))
}

// untilReport asks for reports until one fulfils the condition.
func (r *running) untilReport(t *testing.T, condition func(publication.Report) bool) publication.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		report := r.report(t)
		if condition(report) {
			return report
		}
		if ctx.Err() != nil {
			t.Fatalf("report %+v; the log:\n%s", report, r.log)
		}
	}
}

func loaded(revision int64) func(publication.Report) bool {
	return func(report publication.Report) bool { return report.Revision == revision }
}

func TestPublicationsAreLoadedByTheRunningServer(t *testing.T) {
	t.Parallel()
	r := newPod(t, "serve").start(t)
	r.until(t, http.StatusNoContent, "")
	now := time.Now()
	coming := agenttest.Authority(t, "cluster-ca v1", now)
	cross, err := pki.CrossSign(r.ca, coming.Certificate(), now)
	if err != nil {
		t.Fatal(err)
	}
	renewed := agenttest.Leaf(t, coming, "my-cluster-kafka", now, podName)
	renewed.Chain = append(renewed.Chain, cross)
	started := r.report(t)

	r.publish(t, r.node, r.ca.Certificate(), coming.Certificate())
	r.untilReport(t, loaded(2))
	r.publish(t, renewed, r.ca.Certificate(), coming.Certificate())
	r.untilReport(t, loaded(3))
	r.publish(t, renewed, r.ca.Certificate())
	report := r.untilReport(t, loaded(4))

	want := publication.RoleReport{
		Trusts: agenttest.Fingerprints(r.ca.Certificate()), Presents: renewed.Fingerprint(), Chain: agenttest.Fingerprints(cross),
		NotAfter: report.Roles[contract.ReplicationListener].NotAfter, Dynamic: true,
	}
	if diff := cmp.Diff(want, report.Roles[contract.ReplicationListener]); diff != "" {
		t.Errorf("the listener (-want +got):\n%s", diff)
	}
	if report.Reload != (publication.ReloadReport{Revision: 4}) || !report.StartedAt.Equal(started.StartedAt) {
		t.Errorf("reload %+v of the process of %s, want success in that of %s", report.Reload, report.StartedAt, started.StartedAt)
	}
	if report.Mounted == nil || report.Mounted.Revision != 4 {
		t.Errorf("mounted %+v, want revision 4", report.Mounted)
	}
	certificates := map[string][]byte{}
	for _, certificate := range []*x509.Certificate{renewed.Chain[0], cross, r.ca.Certificate()} {
		certificates[agenttest.Fingerprints(certificate)[0]] = certificate.Raw
	}
	if diff := cmp.Diff(certificates, report.Certificates); diff != "" {
		t.Errorf("certificates (-want +got):\n%s", diff)
	}
	if strings.Contains(r.log.String(), "PRIVATE KEY") {
		t.Error("the log shows key material")
	}
}

func TestTrustThatIsNotProvenIsReportedAsUnknown(t *testing.T) {
	t.Parallel()
	r := newPod(t, "serve").start(t)
	r.until(t, http.StatusNoContent, "")
	now := time.Now()
	twin := agenttest.Authority(t, r.ca.Certificate().Subject.CommonName, now)
	r.publish(t, r.node, r.ca.Certificate(), twin.Certificate())
	report := r.untilReport(t, func(report publication.Report) bool { return report.Reload.Failure != "" })
	if _, known := report.Roles[contract.ReplicationListener]; known || !slices.Contains(report.Unknown, contract.ReplicationListener) {
		t.Errorf("the listener is said to have %+v, unknown are %v", report.Roles[contract.ReplicationListener], report.Unknown)
	}
	if !strings.HasPrefix(report.Reload.Failure, "no leaf of the anchor "+agenttest.Fingerprints(twin.Certificate())[0]) {
		t.Errorf("reload %+v, want the leaf that is missing", report.Reload)
	}

	proof := agenttest.Proof(t, twin, now)
	agenttest.PutIdentity(r.Node, publication.ProofEntry("0a"), proof)
	r.publication.Proofs = map[string]string{"0a": proof.Fingerprint()}
	r.publish(t, r.node, r.ca.Certificate(), twin.Certificate())
	report = r.untilReport(t, loaded(3))
	want := slices.Sorted(slices.Values(agenttest.Fingerprints(r.ca.Certificate(), twin.Certificate())))
	if got := report.Roles[contract.ReplicationListener].Trusts; !slices.Equal(got, want) || len(report.Unknown) > 0 {
		t.Errorf("the listener is said to trust %v, unknown are %v; want %v and none", got, report.Unknown, want)
	}
}

func TestPublicationThatChangesNoStoreIsLoadedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPod(t, "serve")
	p.turn = time.Hour
	r := p.start(t)
	r.until(t, http.StatusNoContent, "")
	r.publication.Operators = append(r.publication.Operators, "ab")
	r.publish(t, r.node, r.ca.Certificate())
	if report := r.untilReport(t, loaded(2)); report.Reload != (publication.ReloadReport{Revision: 2}) || report.Roles[contract.ReplicationListener].Dynamic {
		t.Errorf("reload %+v, %+v; want none", report.Reload, report.Roles)
	}
}

func TestReloadWaitsForTheTurnOfItsNode(t *testing.T) {
	t.Parallel()
	p := newPod(t, "serve")
	p.turn = time.Second
	r := p.start(t)
	r.until(t, http.StatusNoContent, "")
	published := time.Now()
	r.publish(t, r.node, r.ca.Certificate(), agenttest.Authority(t, "cluster-ca v1", published).Certificate())
	r.untilReport(t, loaded(2))
	if took := time.Since(published); took < p.turn {
		t.Errorf("loaded after %s, before the turn of the node at %s", took, p.turn)
	}
}

func TestNeighboursTakeTurns(t *testing.T) {
	t.Parallel()
	for node := range int32(300) {
		if turn := kafkaagent.TurnOf(node); turn == kafkaagent.TurnOf(node+1) || turn > 8*time.Second {
			t.Errorf("node %d waits %s, its neighbour %s", node, turn, kafkaagent.TurnOf(node+1))
		}
	}
}

func TestRefusedReloadIsReportedAndTriedAgain(t *testing.T) {
	t.Parallel()
	r := newPod(t, "serve").start(t)
	r.until(t, http.StatusNoContent, "")
	r.kafka.refuse(true)
	r.publish(t, r.node, r.ca.Certificate(), agenttest.Authority(t, "cluster-ca v1", time.Now()).Certificate())
	report := r.untilReport(t, func(report publication.Report) bool { return report.Reload.Failure != "" })
	if report.Revision != 1 || report.Reload.Revision != 2 || !report.Reload.Refused || len(report.Roles[contract.ReplicationListener].Trusts) != 1 {
		t.Errorf("report %+v, want the refusal of revision 2 and what revision 1 says", report)
	}
	if status, body, err := r.probe(t.Context()); status != http.StatusNoContent {
		t.Errorf("status %d, %s, %v; want ready", status, body, err)
	}
	r.kafka.refuse(false)
	if report := r.untilReport(t, loaded(2)); report.Reload != (publication.ReloadReport{Revision: 2}) {
		t.Errorf("reload %+v, want success", report.Reload)
	}
	if !strings.Contains(r.metrics(t), "keyturn_agent_reloads_total{outcome=\"loaded\"} 1\n") {
		t.Errorf("metrics:\n%s", r.metrics(t))
	}
}

func TestWhatIsNotValidYetIsReportedUntilItIsLoaded(t *testing.T) {
	t.Parallel()
	r := newPod(t, "serve").start(t)
	r.until(t, http.StatusNoContent, "")
	soon := time.Now().Add(pki.Backdate + 2*time.Second)
	r.publish(t, agenttest.Leaf(t, r.ca, "my-cluster-kafka", soon), r.ca.Certificate())
	report := r.untilReport(t, func(report publication.Report) bool { return report.Reload.Failure != "" })
	if !report.Reload.Early || report.Reload.Refused || report.Reload.Revision != 2 {
		t.Errorf("reload %+v, want it to be early", report.Reload)
	}
	if report := r.untilReport(t, loaded(2)); report.Reload != (publication.ReloadReport{Revision: 2}) {
		t.Errorf("reload %+v, want success", report.Reload)
	}
}

func TestWhatIsHalfMountedIsNotReported(t *testing.T) {
	t.Parallel()
	r := newPod(t, "serve").start(t)
	r.until(t, http.StatusNoContent, "")
	coming := agenttest.Authority(t, "cluster-ca v1", time.Now()).Certificate()
	r.publish(t, r.node, r.ca.Certificate(), coming)
	r.untilReport(t, loaded(2))
	mounttest.WriteVolume(t, r.options.Mounts.ClusterTrust, agenttest.TrustDirectory(r.ca.Certificate()))
	report := r.untilReport(t, func(report publication.Report) bool { return report.Mounted == nil })
	if report.Revision != 2 || len(report.Roles[contract.ReplicationListener].Trusts) != 2 {
		t.Errorf("report %+v, want what is loaded", report)
	}
}

// metrics asks for them as the operator.
func (r *running) metrics(t *testing.T) string {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(r.ca.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: podName, Certificates: []tls.Certificate{server.Certificate(r.operator)},
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.options.SecureAddress+agent.MetricsPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return body.String()
}
