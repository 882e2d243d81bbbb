package apitest

import (
	"crypto/x509"
	"fmt"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// onePKI is held by the test whose EtcdPKI there is.
var onePKI sync.Mutex

// pkiWorld is a world whose operator has its CAs signed by an outside PKI.
type pkiWorld struct {
	*world

	company pkitest.Outside
}

func newPKIWorld(t *testing.T, spec etcdv1beta2.EtcdClusterSpec) *pkiWorld {
	t.Helper()
	onePKI.Lock()
	t.Cleanup(onePKI.Unlock)
	w := &pkiWorld{world: newWorld(t, spec)}
	w.readsPKI = true
	w.restart()
	w.company = pkitest.NewOutside(t, noon())
	t.Cleanup(w.forgetPKI)
	w.forgetPKI()
	return w
}

// sign answers a request as the company would, but for the changes.
func (w *pkiWorld) sign(request []byte, changes ...func(*x509.Certificate)) []byte {
	w.t.Helper()
	parsed, err := pki.ParseRequest(request)
	if err != nil {
		w.t.Fatal(err)
	}
	return pki.EncodeBundle(w.company.Sign(w.t, parsed.Subject, parsed.PublicKey, changes...), w.company.Root)
}

func withoutPath(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true }

// goOutside creates the EtcdPKI.
func (w *pkiWorld) goOutside() {
	w.t.Helper()
	w.create(&keyturnv1alpha1.EtcdPKI{
		ObjectMeta: metav1.ObjectMeta{Name: keyturnv1alpha1.EtcdPKIName}, Spec: keyturnv1alpha1.EtcdPKISpec{Mode: keyturnv1alpha1.Outside},
	})
}

func (w *pkiWorld) forgetPKI() {
	ctx := w.t.Context()
	if ctx.Err() != nil { // at the end of the test
		ctx = contextOf(w.t)
	}
	err := w.person.DeleteAllOf(ctx, &keyturnv1alpha1.EtcdPKI{})
	if err == nil {
		err = w.person.DeleteAllOf(ctx, &certificatesv1.CertificateSigningRequest{})
	}
	if err != nil {
		w.t.Error(err)
	}
}

func (w *pkiWorld) reconcilePKI() ctrl.Result {
	w.t.Helper()
	result, err := w.operator.ReconcilePKI(w.t.Context(), ctrl.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *pkiWorld) pki() *keyturnv1alpha1.EtcdPKI {
	w.t.Helper()
	found := &keyturnv1alpha1.EtcdPKI{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Name: keyturnv1alpha1.EtcdPKIName}, found); err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *pkiWorld) pkiReady() metav1.Condition {
	w.t.Helper()
	ready := apimeta.FindStatusCondition(w.pki().Status.Conditions, keyturnv1alpha1.ConditionReady)
	if ready == nil {
		return metav1.Condition{}
	}
	return *ready
}

func (w *pkiWorld) requestOf(plane contract.Plane) []byte {
	w.t.Helper()
	requests := w.pki().Status.Requests
	return []byte(map[contract.Plane]string{contract.PeerPlane: requests.Peer, contract.ClientPlane: requests.Client}[plane])
}

// give puts an answer into the EtcdPKI.
func (w *pkiWorld) give(plane contract.Plane, answer []byte) {
	w.t.Helper()
	w.patchPKI(fmt.Sprintf(`{"spec": {"certificates": {%q: %q}}}`, plane, answer))
}

// giveBoth answers both requests as they should be.
func (w *pkiWorld) giveBoth() {
	w.t.Helper()
	for _, plane := range contract.Planes() {
		w.give(plane, w.sign(w.requestOf(plane)))
	}
}

func (w *pkiWorld) patchPKI(patch string) {
	w.t.Helper()
	object := &keyturnv1alpha1.EtcdPKI{ObjectMeta: metav1.ObjectMeta{Name: keyturnv1alpha1.EtcdPKIName}}
	if err := w.person.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// objects are the CertificateSigningRequests by name.
func (w *pkiWorld) objects() map[string]*certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	var list certificatesv1.CertificateSigningRequestList
	if err := w.person.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	found := map[string]*certificatesv1.CertificateSigningRequest{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

func nameOf(plane contract.Plane) string { return "keyturn-etcd-operator-" + string(plane) + "-ca" }

// decide approves or denies a CertificateSigningRequest.
func (w *pkiWorld) decide(plane contract.Plane, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	object := w.objects()[nameOf(plane)]
	object.Status.Conditions = append(object.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Company", Message: "A person has looked at it.",
	})
	if err := w.person.SubResource("approval").Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	return object
}

// answer approves a CertificateSigningRequest and signs it.
func (w *pkiWorld) answer(plane contract.Plane, changes ...func(*x509.Certificate)) {
	w.t.Helper()
	object := w.decide(plane, certificatesv1.CertificateApproved)
	object.Status.Certificate = w.sign(object.Spec.Request, changes...)
	if err := w.person.Status().Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// waits fails the test if the cluster has anything before it has CAs.
func (w *pkiWorld) waits() {
	w.t.Helper()
	for _, kind := range []string{etcdv1beta2.ConditionReady, etcdv1beta2.ConditionPKIReady} {
		if condition := w.condition(kind); condition.Status != metav1.ConditionFalse || condition.Reason != "WaitingForSigner" {
			w.t.Errorf("the condition is %+v", condition)
		}
	}
	if pods := w.pods(); len(pods) > 0 {
		w.t.Errorf("there are %d pods", len(pods))
	}
	var secrets corev1.SecretList
	if err := w.person.List(w.t.Context(), &secrets, client.InNamespace(w.private)); err != nil {
		w.t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		if secret.Name != nameOf(contract.PeerPlane) && secret.Name != nameOf(contract.ClientPlane) {
			w.t.Errorf("there is a Secret %s", secret.Name)
		}
	}
}

// verified fails the test unless certificates of a member verify up to the root of the company.
func (w *pkiWorld) verified(of *world) {
	w.t.Helper()
	for _, plane := range contract.Planes() {
		chain := of.chain(of.pod(first), plane)[:1]
		chain = append(chain, of.certificate(of.namespace+".my-cluster-"+string(plane)+"-ca-cert"), of.certificate(nameOf(plane)+"-cert"))
		if err := pki.Verify(chain, []*x509.Certificate{w.company.Root}, noon(), pki.ServerAuth); err != nil {
			w.t.Errorf("the %s certificate: %v", plane, err)
		}
	}
}
