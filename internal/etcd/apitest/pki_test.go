package apitest

import (
	"bytes"
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// contextOf is one that the end of the test does not end.
func contextOf(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func TestAClusterWaitsForAnOutsideSignerAndWritesNothing(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	w.reconcile()
	w.waits()
	if ready := w.pkiReady(); ready.Status != metav1.ConditionFalse || ready.Reason != "WaitingForSigner" || ready.ObservedGeneration != 1 {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	if !w.told("WaitingForSigner") {
		t.Error("no event says that it waits")
	}
	published := map[contract.Plane][]byte{}
	for _, plane := range contract.Planes() {
		object := w.objects()[nameOf(plane)]
		published[plane] = w.requestOf(plane)
		if object == nil || object.Spec.SignerName != "keyturn.dev/etcd-ca" || !bytes.Equal(object.Spec.Request, published[plane]) ||
			!slices.Contains(object.Spec.Usages, certificatesv1.UsageCertSign) {
			t.Fatalf("the %s request is %+v", plane, object)
		}
	}
	w.writer.Sent = 0
	for day := range 10 {
		w.clock.SetTime(noon().Add(time.Duration(day) * 24 * time.Hour))
		if result := w.reconcilePKI(); result.RequeueAfter != 0 {
			t.Errorf("the next look is in %s, want none", result.RequeueAfter)
		}
		if result := w.reconcile(); result.RequeueAfter != 0 {
			t.Errorf("the next look at the cluster is in %s, want none", result.RequeueAfter)
		}
		if w.writer.Sent > 0 {
			t.Errorf("%d writes: %s", w.writer.Sent, w.writer.Last)
		}
		w.restart()
	}
	for name, object := range w.objects() { // as the API server does after a day
		w.delete(object)
		w.reconcilePKI()
		if again := w.objects()[name]; again == nil || !bytes.Equal(again.Spec.Request, object.Spec.Request) {
			t.Errorf("%s is published again as %v", name, again)
		}
	}
	if w.writer.Sent != 2 {
		t.Errorf("%d writes, want the two requests", w.writer.Sent)
	}
	w.clock.SetTime(noon())
	w.giveBoth()
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, "CN=company root") {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	w.bring()
	w.verified(w.world)
	w.atRest()
	for _, plane := range contract.Planes() {
		if !bytes.Equal(w.requestOf(plane), published[plane]) {
			t.Errorf("the %s request is another one", plane)
		}
	}
}

func TestAnAnsweredCertificateSigningRequestIsCopiedAtOnce(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	for _, plane := range contract.Planes() {
		w.answer(plane)
	}
	w.reconcilePKI()
	for _, object := range w.objects() { // as the API server does after an hour
		w.delete(object)
	}
	w.reconcilePKI()
	if left := w.objects(); len(left) > 0 || w.pkiReady().Status != metav1.ConditionTrue {
		t.Errorf("%d requests are published, the EtcdPKI is %+v", len(left), w.pkiReady())
	}
	w.bring()
	w.verified(w.world)
	w.atRest()
}

func TestAnExpiredRootBehindAnAnswerIsAWarningAndKeepsNoClusterWaiting(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	old := w.company.Version(t, w.company, func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) })
	for _, plane := range contract.Planes() {
		w.give(plane, slices.Concat(w.sign(w.requestOf(plane)), pki.EncodeBundle(old)))
	}
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Status != metav1.ConditionTrue || strings.Count(ready.Message, "does not need") != 2 || !w.told("Warning SignedOutside") {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	w.bring()
	w.verified(w.world)
	w.writer.Sent = 0
	w.reconcilePKI()
	if w.writer.Sent > 0 {
		t.Errorf("%d writes although nothing has changed: %s", w.writer.Sent, w.writer.Last)
	}
	w.giveBoth()
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Status != metav1.ConditionTrue || strings.Contains(ready.Message, "does not need") || w.told("Warning") {
		t.Errorf("without the old root the EtcdPKI is %+v", ready)
	}
}

func TestARefusedAnswerIsNamedAndAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	request := w.requestOf(contract.PeerPlane)
	w.give(contract.ClientPlane, w.sign(w.requestOf(contract.ClientPlane)))
	w.give(contract.PeerPlane, w.sign(request, withoutPath))
	w.reconcilePKI()
	w.reconcile()
	if ready := w.pkiReady(); ready.Reason != "PathLengthTooShort" || !w.told("PathLengthTooShort") {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	if _, asked := w.objects()[nameOf(contract.PeerPlane)]; !asked || !bytes.Equal(w.requestOf(contract.PeerPlane), request) {
		t.Error("the request is not published any more")
	}
	if w.condition("PKIReady").Reason != "WaitingForSigner" || len(w.pods()) > 0 {
		t.Errorf("the cluster is %+v", w.condition("PKIReady"))
	}
	w.patchPKI(`{"spec": {"certificates": {"peer": null}}}`)
	w.answer(contract.PeerPlane, func(c *x509.Certificate) { c.NotAfter = noon().Add(time.Hour) })
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Reason != "ExpiresTooSoon" || !strings.Contains(ready.Message, "Delete it") {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	w.delete(w.objects()[nameOf(contract.PeerPlane)])
	w.reconcilePKI()
	w.decide(contract.PeerPlane, certificatesv1.CertificateDenied)
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Reason != "SignerDenied" {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	w.writer.Sent = 0
	w.reconcilePKI()
	if w.writer.Sent > 0 {
		t.Errorf("%d writes after a denial: %s", w.writer.Sent, w.writer.Last)
	}
	w.delete(w.objects()[nameOf(contract.PeerPlane)])
	w.reconcilePKI()
	w.answer(contract.PeerPlane)
	w.reconcilePKI()
	w.bring()
	w.verified(w.world)
}

func TestCAsThatWereSelfSignedMoveBelowAnOutsideRoot(t *testing.T) {
	t.Parallel()
	one := newPKIWorld(t, of(1))
	one.bring()
	before := map[contract.Plane]*x509.Certificate{}
	for _, plane := range contract.Planes() {
		before[plane] = one.certificate(one.namespace + ".my-cluster-" + string(plane) + "-ca-cert")
	}
	one.goOutside()
	one.reconcilePKI()
	one.bring()
	two := one.neighbour()
	two.until("WaitingForSigner")
	for _, plane := range contract.Planes() {
		own := one.certificate(nameOf(plane) + "-cert")
		one.give(plane, one.sign(one.requestOf(plane), func(c *x509.Certificate) { c.SubjectKeyId = own.SubjectKeyId }))
	}
	one.reconcilePKI()
	two.bring()
	one.bring()
	one.verified(two)
	one.verified(one.world) // it is the same key
	for _, plane := range contract.Planes() {
		if now := one.certificate(one.namespace + ".my-cluster-" + string(plane) + "-ca-cert"); !now.Equal(before[plane]) {
			t.Errorf("the %s CA of the older cluster is another one", plane)
		}
	}
	first := one.certificate(nameOf(contract.PeerPlane) + "-cert")
	one.giveBoth()
	one.reconcilePKI()
	again := one.certificate(nameOf(contract.PeerPlane) + "-cert")
	if again.Equal(first) || pki.KeyIDOf(again) != pki.KeyIDOf(first) {
		t.Error("another certificate for the same key is not used")
	}
	three := one.neighbour()
	three.bring()
	one.verified(three)
	one.patchPKI(`{"spec": {"mode": "SelfSigned"}}`)
	one.reconcilePKI()
	if ready := one.pkiReady(); ready.Reason != "SelfSigned" || len(one.pki().Status.Requests.Peer) > 0 {
		t.Errorf("the EtcdPKI is %+v", ready)
	}
	one.neighbour().bring()
	if now := one.certificate(nameOf(contract.PeerPlane) + "-cert"); !now.Equal(again) {
		t.Error("a certificate of the outside PKI is thrown away")
	}
}

// neighbour is a world with another cluster of the same operator.
func (w *pkiWorld) neighbour() *world {
	w.t.Helper()
	other := newWorldIn(w.t, kubetest.Namespace(w.t, w.person, "etcd-"), w.private, w.person, of(1))
	other.readsPKI = true
	other.restart()
	return other
}

func TestALostCertificateOfTheOperatorsCAIsTakenFromTheEtcdPKIAgain(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	w.giveBoth()
	w.reconcilePKI()
	lost := w.secret(w.private, nameOf(contract.PeerPlane)+"-cert")
	w.delete(lost)
	w.until("WaitingForSigner")
	if result := w.reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("the next look is in %s, want within a minute: the status of the EtcdPKI does not change", result.RequeueAfter)
	}
	w.reconcilePKI()
	w.bring()
	w.verified(w.world)
}

func TestAnEtcdPKIServesOneOperator(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	request := w.requestOf(contract.PeerPlane)
	w.private = kubetest.Namespace(t, w.person, "operator-")
	w.restart()
	w.reconcilePKI()
	w.reconcile()
	if condition := w.condition("PKIReady"); condition.Reason != "AnotherOperatorPKI" || !bytes.Equal(request, w.requestOf(contract.PeerPlane)) {
		t.Errorf("the cluster is %+v", condition)
	}
	w.atRest()
}

// lasting is true of something that has held for a while: what it was woken by before is over.
func lasting(holds func() bool) func() bool {
	const enough = 20
	held := 0
	return func() bool {
		if held++; !holds() {
			held = 0
		}
		return held >= enough
	}
}

func TestTheRunningOperatorIsWokenBySigners(t *testing.T) {
	t.Parallel()
	rights := installed(t)
	w := newPKIWorld(t, of(1))
	w.asOperator, w.private = connect(t, rights), "keyturn"
	w.clock.SetTime(time.Now())
	w.etcd.Before = nil
	w.goOutside()
	counted := &writes{}
	w.runIn(rights, counted)
	w.eventually("both requests are published", func() bool { return len(w.objects()) == 2 })
	w.eventually("the cluster waits", lasting(func() bool { return w.condition("PKIReady").Reason == "WaitingForSigner" }))
	w.delete(w.objects()[nameOf(contract.PeerPlane)])
	w.eventually("a request that is gone is published again", func() bool { return len(w.objects()) == 2 })
	atLength := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(87600 * time.Hour) }
	w.give(contract.PeerPlane, w.sign(w.requestOf(contract.PeerPlane), atLength))
	w.eventually("one answer is taken", lasting(func() bool { return w.pki().Status.ObservedGeneration == w.pki().Generation }))
	w.answer(contract.ClientPlane, atLength)
	w.eventually("the cluster is ready", func() bool { return w.condition("Ready").Status == metav1.ConditionTrue })
	w.eventually("the EtcdPKI is ready", func() bool { return w.pkiReady().Status == metav1.ConditionTrue })
	if err := w.person.Delete(t.Context(), &keyturnv1alpha1.EtcdPKI{ObjectMeta: metav1.ObjectMeta{Name: keyturnv1alpha1.EtcdPKIName}}); err != nil {
		t.Fatal(err)
	}
}

func TestARestoredKeyOfACAThatAnOutsidePKISignsIsNoticed(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.goOutside()
	w.reconcilePKI()
	w.giveBoth()
	w.reconcilePKI()
	saved := w.secret(w.private, nameOf(contract.PeerPlane))
	w.delete(saved.DeepCopy())
	looks := map[string]time.Duration{"the EtcdPKI": w.reconcilePKI().RequeueAfter, "the EtcdCluster": w.reconcile().RequeueAfter}
	if ready := w.pkiReady(); ready.Reason != "CALost" {
		t.Fatalf("Ready is %+v", ready)
	}
	for what, wait := range looks {
		if wait == 0 || wait > time.Minute {
			t.Errorf("the next look at %s is in %s", what, wait)
		}
	}
	saved.ResourceVersion, saved.UID = "", ""
	w.create(saved)
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", ready)
	}
}

func TestAClusterWhoseCAIsTooLongForTheOutsidePKIWaitsAlone(t *testing.T) {
	t.Parallel()
	w := newPKIWorld(t, of(1))
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta("long"), Spec: caFor(999999 * time.Hour)})
	w.goOutside()
	w.reconcilePKI()
	w.giveBoth()
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Status != metav1.ConditionTrue {
		t.Errorf("the EtcdPKI is %s: %s", ready.Reason, ready.Message)
	}
	w.bring()
	if _, err := w.operator.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: "long"}}); err != nil {
		t.Fatal(err)
	}
	long := &etcdv1beta2.EtcdCluster{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "long"}, long); err != nil {
		t.Fatal(err)
	}
	if ready := apimeta.FindStatusCondition(long.Status.Conditions, "PKIReady"); ready == nil || ready.Reason != "WaitingForSigner" || !strings.Contains(ready.Message, "999999h") {
		t.Errorf("the cluster that waits is %+v", ready)
	}
	w.reconcilePKI()
	if ready := w.pkiReady(); ready.Reason != "ExpiresTooSoon" || !strings.Contains(ready.Message, "999999h") {
		t.Errorf("the EtcdPKI is %s: %s", ready.Reason, ready.Message)
	}
	next := newWorldIn(t, kubetest.Namespace(t, w.person, "etcd-"), w.private, w.person, of(1))
	next.readsPKI = true
	next.restart()
	next.bring()
}
