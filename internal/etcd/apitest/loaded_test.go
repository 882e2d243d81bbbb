package apitest

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
)

var errSilent error = &client.UnreachableError{Address: "10.0.0.1:8443", Err: errors.New("i/o timeout")}

// polled are the agents of a world as the operator reaches them.
type polled struct {
	*world

	credentials mtls.Credentials
}

// TLS implements controller.AgentClient. As the real ones do, agents answer the operator alone.
func (p polled) TLS(_ context.Context, node client.Node) (publication.Report, error) {
	pods := p.pods()
	for i := range pods {
		a := p.agents[pods[i].UID]
		switch {
		case a == nil || a.address+":8443" != node.Address:
		case a.silence != nil:
			return publication.Report{}, a.silence
		case a.report == nil:
			return publication.Report{}, errSilent
		case node.Name != fmt.Sprintf("%s.my-cluster-peer.%s.svc", pods[i].Name, p.namespace), !p.isOperator(p.world.secret(p.namespace, pods[i].Name).Data[contract.ClientPlane.AnchorsKey()]):
			return publication.Report{}, &client.RefusedError{Address: node.Address}
		default:
			report := *a.report
			report.Roles = maps.Clone(report.Roles)
			return report, nil
		}
	}
	return publication.Report{}, errSilent
}

// unreachable are agents that nothing reaches.
type unreachable struct{}

func (unreachable) TLS(context.Context, client.Node) (publication.Report, error) {
	return publication.Report{}, errSilent
}

// toNoAgent connects an operator to no agent.
func toNoAgent(mtls.Credentials) controller.AgentClient { return unreachable{} }

func (p polled) isOperator(bundle []byte) bool {
	anchors, err := pki.ParseBundle(bundle)
	if err != nil {
		return false
	}
	leaf, err := x509.ParseCertificate(p.credentials.Identity.Certificate[0])
	return err == nil && slices.ContainsFunc(anchors, func(ca *x509.Certificate) bool { return pki.IssuedBy(leaf, ca) }) && leaf.Subject.Organization[0] == contract.OperatorOrganization
}

// poll has the operator poll the agents that are due after a time, and reconciles the cluster if one reports something else.
func (w *world) poll(after time.Duration) bool {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(after))
	changed := w.operator.PollAgents(w.t.Context())
	if len(changed) > 0 {
		w.reconcile()
	}
	return len(changed) > 0
}

func (w *world) loaded(member string) map[string]etcdv1beta2.LoadedPlane {
	w.t.Helper()
	loaded := map[string]etcdv1beta2.LoadedPlane{}
	for _, status := range w.status().MemberStatuses {
		if status.Name == member {
			for _, plane := range status.Loaded {
				loaded[plane.Plane] = plane
			}
		}
	}
	return loaded
}

// reporting is a cluster whose agents have reported.
func reporting(t *testing.T, size int32) *world {
	t.Helper()
	return reportingAs(t, of(size))
}

func reportingAs(t *testing.T, spec etcdv1beta2.EtcdClusterSpec) *world {
	t.Helper()
	w := newWorld(t, spec)
	w.bring()
	w.poll(time.Minute)
	w.told("")
	return w
}

func (w *world) wantLoaded(status metav1.ConditionStatus, reason string, says ...string) {
	w.t.Helper()
	condition := w.condition(etcdv1beta2.ConditionCertificatesLoaded)
	if condition.Status != status || condition.Reason != reason {
		w.t.Fatalf("CertificatesLoaded is %+v, want %s with %s", condition, status, reason)
	}
	for _, text := range says {
		if !strings.Contains(condition.Message, text) {
			w.t.Errorf("the message is %q, want that it says %q", condition.Message, text)
		}
	}
}

func TestTheStatusSaysWhatEachMemberHasLoaded(t *testing.T) {
	t.Parallel()
	w := reporting(t, 3)
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded")
	for _, member := range []string{first, second, third} {
		loaded := w.loaded(member)
		for _, plane := range contract.Planes() {
			leaf := w.chain(w.pod(member), plane)[0]
			ca, err := pki.FirstCertificate(w.secret(w.namespace, member).Data[plane.AnchorsKey()])
			if err != nil {
				t.Fatal(err)
			}
			got := loaded[string(plane)]
			if got.Presents != pki.FingerprintOf(leaf).String() || !got.NotAfter.Time.Equal(leaf.NotAfter) || len(got.Trusts) != 1 || got.Trusts[0] != pki.FingerprintOf(ca).String() {
				t.Errorf("member %s is said to have loaded %+v", member, got)
			}
		}
	}
	w.hasMetric(fmt.Sprintf(`keyturn_etcd_silent_agents{etcdcluster="my-cluster",namespace=%q} 0`, w.namespace))
	w.hasMetric(fmt.Sprintf(`keyturn_etcd_loaded_certificate_expiry_timestamp_seconds{etcdcluster="my-cluster",namespace=%q,plane="peer"} %v`,
		w.namespace, float64(w.chain(w.pod(first), contract.PeerPlane)[0].NotAfter.Unix())))
	w.atRest()
	w.restart() // knows nothing, and what is stored stays until it does
	w.atRest()
	w.poll(time.Second)
	w.atRest()
}

func TestARenewedCertificateIsShownOnceItIsLoaded(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	w.agentOf(first).isStuck = true
	before := w.loaded(first)
	w.clock.SetTime(w.chain(w.pod(first), contract.PeerPlane)[0].NotAfter.Add(-time.Hour))
	w.reconcile()
	w.poll(time.Second)
	w.reconcile()
	if now := w.loaded(first); now["peer"].Presents != before["peer"].Presents {
		t.Error("a certificate is said to be loaded that is not")
	}
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded")
	result := w.reconcile()
	if result.RequeueAfter == 0 || result.RequeueAfter > 10*time.Minute {
		t.Errorf("it is looked at again after %s, want within 10 minutes", result.RequeueAfter)
	}
	w.clock.SetTime(w.clock.Now().Add(11 * time.Minute))
	w.reconcile()
	w.wantLoaded(metav1.ConditionFalse, "OldCertificate", "Member my-cluster-0 presents a peer certificate that expires at", "although another one was issued")
	if !w.told("OldCertificate") {
		t.Error("there is no event")
	}
	w.atRest()
	w.agentOf(first).isStuck = false
	w.play()
	w.poll(time.Minute)
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded")
	if w.loaded(first)["peer"].Presents == before["peer"].Presents || !w.told("CertificatesLoaded") {
		t.Error("the renewed certificate is not said to be loaded")
	}
}

func TestAnAgentThatDoesNotAnswerIsReportedAndStopsNothing(t *testing.T) {
	t.Parallel()
	w := reporting(t, 3)
	w.agentOf(second).silence = errSilent
	w.poll(time.Minute)
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded") // it may only be slow
	if len(w.loaded(second)) == 0 {
		t.Error("what it reported is dropped at the first silence")
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.reconcile()
	w.wantLoaded(metav1.ConditionUnknown, "AgentSilent", "The agent of member my-cluster-1 does not answer", "port 8443")
	if !w.told("AgentSilent") || len(w.loaded(second)) != 0 || len(w.loaded(first)) != 2 {
		t.Errorf("members are said to have loaded %+v and %+v", w.loaded(first), w.loaded(second))
	}
	w.hasMetric(fmt.Sprintf(`keyturn_etcd_silent_agents{etcdcluster="my-cluster",namespace=%q} 1`, w.namespace))
	if ready := w.condition(etcdv1beta2.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Errorf("the cluster is not ready: %+v", ready)
	}
	w.atRest()
	w.agentOf(second).silence = nil
	w.poll(time.Minute)
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded")
}

func TestWhatAnAgentRefusesIsReportedInItsWords(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	w.agentOf(first).isStuck = true
	w.agentOf(first).report.Reload = publication.ReloadReport{Revision: 2, Failure: "What is mounted is not used." + strings.Repeat(" x", 5000)}
	w.poll(time.Minute)
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded") // parts of it may still arrive
	w.clock.SetTime(w.clock.Now().Add(3 * time.Minute))
	w.reconcile()
	w.wantLoaded(metav1.ConditionFalse, "MountRefused", "Member my-cluster-0 reports: What is mounted is not used.")
	if !w.told("MountRefused") {
		t.Error("there is no event")
	}
	w.atRest()
}

// Anyone in the namespace of a cluster may answer in the place of an agent.
func TestAnAgentThatReportsAnyNumberOfCAsFillsNoStatus(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	role := w.agentOf(first).report.Roles[contract.PeerPlane.Role()]
	role.Trusts = make([]string, 100)
	for i := range role.Trusts {
		role.Trusts[i] = fmt.Sprintf("%064x", i)
	}
	role.Presents = strings.Repeat("f", 4096)
	role.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
	w.agentOf(first).isStuck = true
	w.agentOf(first).report.Roles[contract.PeerPlane.Role()] = role
	w.poll(time.Minute)
	if loaded := w.loaded(first)["peer"]; len(loaded.Trusts) != 16 || loaded.Presents != "" || loaded.NotAfter != nil {
		t.Errorf("the status has %d CAs, the fingerprint %q and the end %v", len(loaded.Trusts), loaded.Presents, loaded.NotAfter)
	}
}

func TestAgentsOfADeletedClusterAreNotPolled(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	w.agentOf(first).silence = errSilent
	if err := w.person.Delete(t.Context(), w.cluster()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if w.poll(time.Hour) {
		t.Error("an agent of a deleted cluster is polled")
	}
}

func TestAClusterWithoutCertificatesOfTheOperatorReportsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, insecure(1))
	w.bring()
	if w.poll(time.Hour) || w.condition(etcdv1beta2.ConditionCertificatesLoaded).Status != "" {
		t.Error("something is polled")
	}
}

// A cache that lags has an older certificate of the pod than etcd presents.
func TestACertificateThatIsNewerThanTheCacheIsNotOld(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	w.agentOf(first).isStuck = true
	newer := pkitest.CA(t, "newer", w.chain(w.pod(first), contract.PeerPlane)[0].NotBefore.Add(time.Hour)).Certificate()
	report := *w.agentOf(first).report
	report.Roles = maps.Clone(report.Roles)
	report.Roles[contract.PeerPlane.Role()] = publication.RoleReportOf([]*x509.Certificate{newer}, nil)
	report.Certificates = map[string][]byte{pki.FingerprintOf(newer).String(): newer.Raw}
	w.agentOf(first).report = &report
	w.poll(time.Hour)
	w.wantLoaded(metav1.ConditionTrue, "CertificatesLoaded")
}

func TestTheReasonForWhichAnAgentDoesNotReportIsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		silence error
		says    string
	}{
		"it rejects the operator":    {&client.RefusedError{}, "rejects the certificate of the operator"},
		"another answers for it":     {&client.UntrustedError{}, "Find out what answers at the address of the pod."},
		"it answers something else":  {&client.StatusError{Path: "/v1/tls", Status: 404}, "something other than a report"},
		"nothing answers in its pod": {errSilent, "does not answer on port 8443"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := reporting(t, 1)
			w.agentOf(first).silence = test.silence
			w.poll(time.Minute)
			w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
			w.reconcile()
			w.wantLoaded(metav1.ConditionUnknown, "AgentSilent", "my-cluster-0", test.says)
		})
	}
}
