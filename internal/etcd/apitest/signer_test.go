package apitest

import (
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

func (w *world) certificate(secret string) *x509.Certificate {
	w.t.Helper()
	certificate, err := pki.FirstCertificate(w.secret(w.private, secret).Data["ca.crt"])
	if err != nil {
		w.t.Fatal(err)
	}
	return certificate
}

func TestCAsOfClustersAreBelowThoseOfTheOperatorAndTheOnlyAnchors(t *testing.T) {
	t.Parallel()
	one := newWorld(t, of(1))
	one.bring()
	two := newWorldIn(t, kubetest.Namespace(t, one.person, "etcd-"), one.private, one.person, of(1))
	two.bring()
	seen := map[pki.KeyID]bool{}
	for _, plane := range contract.Planes() {
		above := one.certificate("keyturn-etcd-operator-" + string(plane) + "-ca-cert")
		seen[pki.KeyIDOf(above)] = true
		for _, w := range []*world{one, two} {
			ca := w.certificate(w.namespace + ".my-cluster-" + string(plane) + "-ca-cert")
			seen[pki.KeyIDOf(ca)] = true
			leaf := w.chain(w.pod(first), plane)[0]
			if err := pki.Verify([]*x509.Certificate{leaf, ca}, []*x509.Certificate{above}, noon(), pki.ServerAuth); err != nil {
				t.Errorf("the %s certificate of %s is not below the operator's CA: %v", plane, w.namespace, err)
			}
			anchors, err := pki.ParseBundle(w.secret(w.namespace, first).Data[plane.AnchorsKey()])
			if err != nil || len(anchors) != 1 || !anchors[0].Equal(ca) {
				t.Errorf("members of %s trust %d CAs in the %s plane, want their own: %v", w.namespace, len(anchors), plane, err)
			}
			if want := "my-cluster-peer." + w.namespace + ".svc"; !slices.Contains(ca.PermittedDNSDomains, want) || !ca.PermittedDNSDomainsCritical {
				t.Errorf("the %s CA may sign names in %v, want %s", plane, ca.PermittedDNSDomains, want)
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("there are %d keys, want one for each of six CAs", len(seen))
	}
	one.atRest()
	two.atRest()
}

func TestAClusterWithSelfSignedCAsKeepsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	before := map[contract.Plane]*x509.Certificate{}
	for _, plane := range contract.Planes() {
		ca, err := pki.NewCA(pki.CASpec{
			Subject: pki.Subject{CommonName: "my-cluster " + string(plane) + "-ca v0"}, Key: pki.DefaultCAKey(pki.ECDSA),
			Validity: 43800 * time.Hour, Now: noon(),
		})
		if err != nil {
			t.Fatal(err)
		}
		before[plane] = ca.Certificate()
		name := w.namespace + ".my-cluster-" + string(plane) + "-ca"
		for secret, data := range map[string]map[string][]byte{
			name: {"ca.key": ca.Key().PEM()}, name + "-cert": {"ca.crt": pki.EncodeBundle(ca.Certificate())},
		} {
			w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: w.private, Name: secret, Labels: map[string]string{model.ClusterUIDLabel: string(w.cluster().UID)},
			}, Data: data})
		}
	}
	w.bring()
	for _, plane := range contract.Planes() {
		if !pki.IssuedBy(w.chain(w.pod(first), plane)[0], before[plane]) {
			t.Errorf("the %s certificate is not by the CA that was there", plane)
		}
	}
}

func TestALostKeyOfTheOperatorsCAStopsNewClustersOnly(t *testing.T) {
	t.Parallel()
	one := newWorld(t, of(1))
	one.bring()
	lost := one.secret(one.private, "keyturn-etcd-operator-peer-ca")
	one.delete(lost.DeepCopy())
	two := newWorldIn(t, kubetest.Namespace(t, one.person, "etcd-"), one.private, one.person, of(1))
	if message := two.until("CALost"); !strings.Contains(message, lost.Name) {
		t.Errorf("the message is %q", message)
	}
	one.setAddress(one.pod(first), "10.0.7.7")
	one.reconcile()
	if leaf := one.chain(one.pod(first), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
		t.Error("a cluster that has its CAs gets no certificate")
	}
	lost.ResourceVersion, lost.UID = "", ""
	two.create(lost)
	two.bring()
}

// caFor is a cluster of one member whose peer CA is to be valid for so long.
func caFor(validity time.Duration) etcdv1beta2.EtcdClusterSpec {
	spec := of(1)
	spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{
		PeerCA: &etcdv1beta2.CertificateLife{Validity: metav1.Duration{Duration: validity}},
	}}
	return spec
}

func TestACAThatOutlivesTheOperatorsHasThatCertifiedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	before := w.certificate("keyturn-etcd-operator-peer-ca-cert")
	other := newWorldIn(t, kubetest.Namespace(t, w.person, "etcd-"), w.private, w.person, caFor(87600*time.Hour))
	other.clock.SetTime(noon().Add(time.Hour))
	other.bring()
	after := w.certificate("keyturn-etcd-operator-peer-ca-cert")
	if pki.AuthorityIDOf(before) != pki.AuthorityIDOf(after) || !after.NotAfter.Equal(noon().Add(87601*time.Hour)) {
		t.Errorf("it was valid until %s and is until %s, with one key and name: %t", before.NotAfter, after.NotAfter, pki.AuthorityIDOf(before) == pki.AuthorityIDOf(after))
	}
}

func TestNoClusterMakesTheOperatorsCALastLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, caFor(999999*time.Hour))
	if message := w.until("NotSupported"); !strings.Contains(message, "spec.TLS.dynamic.peerCA.validity is 999999h") || !strings.Contains(message, "at most 87600h") {
		t.Errorf("the message is %q", message)
	}
	if len(w.pods()) > 0 {
		t.Error("it has a member")
	}
	newWorldIn(t, kubetest.Namespace(t, w.person, "etcd-"), w.private, w.person, of(1)).bring()
	if end := w.certificate("keyturn-etcd-operator-peer-ca-cert").NotAfter; !end.Equal(noon().Add(87600 * time.Hour)) {
		t.Errorf("the operator's CA is valid until %s", end)
	}
	w.change(`{"spec": {"TLS": {"dynamic": {"peerCA": {"validity": "87600h"}}}}}`)
	w.bring()
}

// ledger is what the ConfigMap of the cluster has; empty when there is none.
func (w *world) ledger() map[string]enroll.Issued {
	w.t.Helper()
	stored := &corev1.ConfigMap{}
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.private, Name: w.namespace + ".my-cluster-issued"}, stored)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	ledger := map[string]enroll.Issued{}
	for serial, text := range stored.Data {
		var issued enroll.Issued
		if err := json.Unmarshal([]byte(text), &issued); err != nil {
			w.t.Fatal(err)
		}
		ledger[serial] = issued
	}
	return ledger
}

// allRecorded fails the test if a pod has a certificate that the ledger does not have.
func (w *world) allRecorded() {
	w.t.Helper()
	ledger := w.ledger()
	pods := w.pods()
	for i := range pods {
		pod := &pods[i]
		for _, plane := range contract.Planes() {
			chain := w.chain(pod, plane)
			if len(chain) == 0 {
				continue
			}
			issued := ledger[chain[0].SerialNumber.Text(16)]
			if issued.PodUID != string(pod.UID) || issued.Plane != plane || issued.SPKI != pki.KeyIDOf(chain[0]).String() ||
				!issued.NotAfter.Equal(chain[0].NotAfter) || issued.CA == "" {
				w.t.Errorf("the %s certificate of pod %s is recorded as %+v", plane, pod.Name, issued)
			}
		}
	}
}

func TestAKeyOfAPodThatIsGoneIsNeverSignedForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.allRecorded()
	replayed := w.pod(first).Annotations[contract.PeerPlane.RequestAnnotation()]
	w.delete(w.pod(first))
	w.bring()
	w.restart()
	w.annotate(first, contract.PeerPlane.RequestAnnotation(), replayed)
	if message := w.until("RequestDenied"); !strings.Contains(message, "KeyOfAnotherPod") || !w.told("KeyOfAnotherPod") {
		t.Errorf("the message is %q", message)
	}
	w.atRest()
}

func TestALedgerThatCannotBeReadIssuesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.private, Name: w.namespace + ".my-cluster-issued"}}
	if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		t.Fatal(err)
	}
	before := stored.DeepCopy()
	stored.Data["1"] = "?"
	if err := w.person.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.setAddress(w.pod(first), "10.0.7.7")
	if message := w.until("LedgerUnreadable"); !strings.Contains(message, before.Name) {
		t.Errorf("the message is %q", message)
	}
	w.atRest()
	w.delete(stored)
	w.bring()
	w.allRecorded()
	for serial := range before.Data {
		if _, recorded := w.ledger()[serial]; !recorded {
			t.Errorf("the certificate %s, which was in use, is not recorded again", serial)
		}
	}
}

func TestManyKeysOfOnePodAreHeldForAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(2))
	w.bring()
	for range enroll.MaxPerHour {
		w.annotate(first, contract.PeerPlane.RequestAnnotation(), w.newRequest())
		w.reconcile()
	}
	w.until("TooManyCertificates")
	if !w.told("TooManyCertificates") {
		t.Error("no event says so")
	}
	if wait := w.reconcile().RequeueAfter; wait <= 0 || wait > time.Hour {
		t.Errorf("the next look is in %s, want within an hour", wait)
	}
	w.atRest()
	w.setAddress(w.pod("my-cluster-1"), "10.0.7.7")
	w.reconcile()
	if leaf := w.chain(w.pod("my-cluster-1"), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
		t.Error("another member gets no certificate")
	}
	w.clock.SetTime(noon().Add(time.Hour))
	w.reconcile()
	if ready := w.condition(etcdv1beta2.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Errorf("after an hour: %+v", ready)
	}
}

// newRequest is for a key that no pod has.
func (w *world) newRequest() string {
	w.t.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		w.t.Fatal(err)
	}
	return (&agent{keys: map[contract.Plane]pki.PrivateKey{contract.PeerPlane: key}}).request(w.t, contract.PeerPlane)
}
