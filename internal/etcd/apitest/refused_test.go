package apitest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

const first = "my-cluster-0"

func TestAMalformedRequestIsSignedByNobody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request func(w *world) string
		want    string
	}{
		"no base64":           {func(*world) string { return "?" }, "RequestNotBase64"},
		"no request":          {func(*world) string { return "aGVsbG8=" }, "RequestUnreadable"},
		"a text of 200 KiB":   {func(*world) string { return strings.Repeat("A", 200<<10) }, "RequestTooLong"},
		"a weak key":          {func(w *world) string { return w.der(elliptic.P224(), 0) }, "RequestKeyTooWeak"},
		"a broken signature":  {func(w *world) string { return w.der(elliptic.P256(), 1) }, "RequestUnreadable"},
		"a private key":       {func(w *world) string { return w.exposed() }, "RequestHasPrivateKey"},
		"one key for both":    {func(w *world) string { return w.agentOf(first).request(t, contract.ClientPlane) }, "KeyUsedForBothPlanes"},
		"a key of another":    {func(w *world) string { return w.agentOf("my-cluster-1").request(t, contract.PeerPlane) }, "KeyOfAnotherPod"},
		"the other of a pair": {func(w *world) string { return w.agentOf("my-cluster-1").request(t, contract.ClientPlane) }, "KeyOfAnotherPod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(2))
			w.bring()
			w.told("")
			before := w.pod(first)
			neighbour := w.pod("my-cluster-1")
			w.annotate(first, contract.PeerPlane.RequestAnnotation(), test.request(w))
			w.reconcile()
			if !w.told(test.want) {
				t.Errorf("no event has the reason %s", test.want)
			}
			ready := w.condition(etcdv1beta2.ConditionReady)
			if ready.Reason != "RequestDenied" || !strings.Contains(ready.Message, test.want) || len(ready.Message) > 600 {
				t.Errorf("the condition is %s: %s", ready.Reason, ready.Message)
			}
			for _, plane := range contract.Planes() {
				key := plane.CertificateAnnotation()
				if w.pod(first).Annotations[key] != before.Annotations[key] {
					t.Errorf("the certificate of the %s plane has changed", plane)
				}
			}
			if w.pod("my-cluster-1").ResourceVersion != neighbour.ResourceVersion {
				t.Error("the pod of another member has changed")
			}
			w.atRest()
			if w.told(test.want) {
				t.Error("the event is written again")
			}
			w.annotate(first, contract.PeerPlane.RequestAnnotation(), w.agentOf(first).request(t, contract.PeerPlane))
			w.reconcile()
			if w.condition(etcdv1beta2.ConditionReady).Status != metav1.ConditionTrue {
				t.Errorf("a good request does not make it ready: %+v", w.condition(etcdv1beta2.ConditionReady))
			}
		})
	}
}

// der is a request in DER for a key of a curve, with so much added to the last byte of its signature.
func (w *world) der(curve elliptic.Curve, change byte) string {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	request := pkitest.Request(w.t, key, "", "other.example.com", netip.AddrFrom4([4]byte{10, 0, 0, 9}))
	request[len(request)-1] += change
	return base64.StdEncoding.EncodeToString(request)
}

func (w *world) exposed() string {
	w.t.Helper()
	return base64.StdEncoding.EncodeToString(newKey(w.t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}).PEM())
}

func (w *world) agentOf(name string) *agent {
	w.t.Helper()
	return w.agents[w.pod(name).UID]
}

// forge creates a pod as somebody does who may create pods, with all that a member's pod has besides its UID.
func (w *world) forge(name string) *corev1.Pod {
	w.t.Helper()
	forged := w.pod(first).DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Labels: forged.Labels, OwnerReferences: forged.OwnerReferences,
		Annotations: map[string]string{},
	}
	other := &agent{keys: map[contract.Plane]pki.PrivateKey{}}
	for _, plane := range contract.Planes() {
		key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
		if err != nil {
			w.t.Fatal(err)
		}
		other.keys[plane] = key
		forged.Annotations[plane.RequestAnnotation()] = other.request(w.t, plane)
		forged.Annotations[plane.CertificateAnnotation()] = "Zm9yZ2Vk"
	}
	forged.Status = corev1.PodStatus{}
	w.create(forged)
	w.setAddress(forged, "10.0.9.9")
	return forged
}

func TestAForeignPodThatClaimsToBeAMemberIsNeverSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.change(`{"spec": {"size": 3}}`)
	w.forge("my-cluster-1")
	message := w.until("UnknownMemberPod")
	if !strings.Contains(message, "my-cluster-1") {
		t.Errorf("the message is %q", message)
	}
	for _, plane := range contract.Planes() {
		if answer := w.pod("my-cluster-1").Annotations[plane.CertificateAnnotation()]; answer != "Zm9yZ2Vk" {
			t.Errorf("the foreign pod has a certificate for the %s plane", plane)
		}
	}
	w.delete(&corev1.Pod{ObjectMeta: w.meta("my-cluster-1")})
	w.bring()
}

func TestAPodThatReplacesAMembersPodIsNeverSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	genuine := w.pod(first)
	w.delete(genuine)
	forged := genuine.DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{
		Namespace: w.namespace, Name: first, Labels: genuine.Labels, OwnerReferences: genuine.OwnerReferences,
		Annotations: genuine.Annotations,
	}
	for _, plane := range contract.Planes() {
		delete(forged.Annotations, plane.CertificateAnnotation())
	}
	forged.Status = corev1.PodStatus{}
	w.create(forged)
	w.setAddress(forged, "10.0.9.9")
	w.told("")
	w.reconcile()
	if w.told("CertificateIssued") {
		t.Error("a certificate was issued to the forged pod")
	}
	w.bring() // the forged pod had no certificate, and is made again
	if w.pod(first).UID == forged.UID {
		t.Error("the forged pod is a member")
	}
}

func (w *world) delete(object client.Object) {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		w.t.Fatal(err)
	}
}

func TestAForeignObjectIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]func(w *world) client.Object{
		"Service my-cluster-peer": func(w *world) client.Object {
			return &corev1.Service{ObjectMeta: w.meta("my-cluster-peer"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
		},
		"ServiceAccount my-cluster-0": func(w *world) client.Object { return &corev1.ServiceAccount{ObjectMeta: w.meta(first)} },
		"Role my-cluster-0":           func(w *world) client.Object { return &rbacv1.Role{ObjectMeta: w.meta(first)} },
		"Secret my-cluster-0":         func(w *world) client.Object { return &corev1.Secret{ObjectMeta: w.meta(first)} },
		"Pod my-cluster-0": func(w *world) client.Object {
			return &corev1.Pod{ObjectMeta: w.meta(first), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			foreign := object(w)
			w.create(foreign)
			if message := w.until("ForeignObject"); !strings.HasPrefix(message, name) {
				t.Errorf("the message is %q", message)
			}
			before := foreign.GetResourceVersion()
			if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.GetResourceVersion() != before {
				t.Errorf("it has changed: %v", err)
			}
			w.atRest()
			w.delete(foreign)
			w.bring()
		})
	}
}

func TestALostCAIsNotMadeAgainWhileMembersTrustIt(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"-peer-ca", "-client-ca-cert"} {
		t.Run(suffix, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			w.bring()
			lost := w.secret(w.private, w.namespace+".my-cluster"+suffix)
			w.delete(lost.DeepCopy())
			if message := w.until("CALost"); !strings.Contains(message, lost.Name) {
				t.Errorf("the message is %q", message)
			}
			if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(lost), &corev1.Secret{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Secret: %v, want that it is missing", err)
			}
			lost.ResourceVersion, lost.UID = "", ""
			w.create(lost)
			w.bring()
		})
	}
}

func TestSecretsOfAnEarlierClusterAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.private, Name: w.namespace + ".my-cluster-peer-ca"},
		Data:       map[string][]byte{"ca.key": []byte("old")},
	})
	w.until("ForeignObject")
}

func TestAnAddressThatChangesIsInTheNextCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.setAddress(w.pod(first), "10.0.7.7")
	w.reconcile()
	for _, plane := range contract.Planes() {
		if leaf := w.chain(w.pod(first), plane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
			t.Errorf("the certificate of the %s plane is for %v", plane, leaf.IPAddresses)
		}
	}
	w.atRest()
}

func TestCertificatesAreRenewedAfterTwoThirdsOfTheirLife(t *testing.T) {
	t.Parallel()
	spec := of(1)
	spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{
		Leaf: &etcdv1beta2.LeafLife{Validity: metav1.Duration{Duration: 3 * time.Hour}},
	}}
	w := newWorld(t, spec)
	w.bring()
	if wait := w.reconcile().RequeueAfter; wait != 2*time.Hour {
		t.Errorf("the next look is in %s, want 2h", wait)
	}
	before := w.pod(first).Annotations
	operator := w.secret(w.private, w.namespace+".my-cluster-operator").Data["tls.crt"]
	w.clock.SetTime(noon().Add(2*time.Hour + time.Second))
	w.reconcile()
	after := w.pod(first).Annotations
	for _, plane := range contract.Planes() {
		if before[plane.CertificateAnnotation()] == after[plane.CertificateAnnotation()] || before[plane.RequestAnnotation()] != after[plane.RequestAnnotation()] {
			t.Errorf("the certificate of the %s plane was not renewed for the same request", plane)
		}
	}
	if bytes.Equal(operator, w.secret(w.private, w.namespace+".my-cluster-operator").Data["tls.crt"]) {
		t.Error("the operator's certificate was not renewed")
	}
	w.atRest()
}

func TestASpecThatCannotBeActedOnIsNamed(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]etcdv1beta2.EtcdClusterSpec{"an unknown version": ofVersion(1, "3.4.1"), "an old patch": ofVersion(1, "3.6.13")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, spec)
			w.until("NotSupported")
			if status := w.status(); status.Phase != etcdv1beta2.PhaseFailed || status.Reason == "" || len(w.pods()) > 0 {
				t.Errorf("the phase is %s (%s) with %d pods", status.Phase, status.Reason, len(w.pods()))
			}
			w.atRest()
		})
	}
}

func TestWhatIsNotSupportedYetStopsNothingThatRuns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ patch, reason string }{
		"a downgrade":        {`{"spec": {"version": "3.5.35"}}`, "NotSupported"},
		"an unknown version": {`{"spec": {"version": "3.9.0"}}`, "NotSupported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(2))
			w.bring()
			w.change(test.patch)
			w.until(test.reason)
			w.setAddress(w.pod(first), "10.0.7.7") // its certificate is issued again
			w.reconcile()
			if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
				t.Errorf("the certificate is for %v", leaf.IPAddresses)
			}
			status := w.status()
			if len(w.pods()) != 2 || status.Phase != etcdv1beta2.PhaseRunning || status.CurrentVersion != "3.6.16" {
				t.Errorf("there are %d pods, the status is %+v", len(w.pods()), status)
			}
			w.atRest()
		})
	}
}

func TestAChangeThatEtcdRefusesIsReportedAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.etcd.Before = func() error { return errors.New("etcdserver: request timed out") }
	w.change(`{"spec": {"size": 2}}`)
	if message := w.until("EtcdNotAnswering"); !strings.Contains(message, "timed out") {
		t.Errorf("the message is %q", message)
	}
	if wait := w.reconcile().RequeueAfter; wait != time.Second {
		t.Errorf("the next try is in %s, want soon", wait)
	}
	w.etcd.Before = nil
	w.bring()
}

func TestAPausedClusterKeepsItsMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.change(`{"spec": {"size": 3, "paused": true}}`)
	w.until("Paused")
	if !w.status().ControlPaused || len(w.pods()) != 1 {
		t.Errorf("paused: %t with %d pods", w.status().ControlPaused, len(w.pods()))
	}
	w.atRest()
	w.change(`{"spec": {"paused": false}}`)
	w.bring()
	if len(w.pods()) != 3 {
		t.Errorf("there are %d pods, want 3", len(w.pods()))
	}
}

func TestAPodThatIsDeletedByHandComesBackWithItsData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.pod("my-cluster-1")
	w.delete(before.DeepCopy())
	w.bring()
	after := w.pod("my-cluster-1")
	if start := w.startOf(after); after.UID == before.UID || !start.HasJoined {
		t.Errorf("the pod starts as %+v", start)
	}
	w.atRest()
}

func TestAnEphemeralMemberWhosePodIsLostIsNotStartedEmpty(t *testing.T) {
	t.Parallel()
	spec := of(1)
	spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
	w := newWorld(t, spec)
	w.bring()
	w.delete(w.pod(first))
	w.until("QuorumLost")
	if len(w.pods()) > 0 {
		t.Error("the pod was created again")
	}
}

func TestWhereMembersKeepTheirDataIsNotChanged(t *testing.T) {
	t.Parallel()
	ephemeral := of(1)
	ephemeral.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
	labelled := of(1)
	labelled.Pod = &etcdv1beta2.PodPolicy{Labels: map[string]string{"example.com/a": "b"}}
	for name, test := range map[string]struct {
		spec     etcdv1beta2.EtcdClusterSpec
		patch    string
		accepted bool
	}{
		"switched on where pod is unset":       {of(1), `{"spec": {"pod": {"ephemeral": true}}}`, false},
		"switched on where ephemeral is unset": {labelled, `{"spec": {"pod": {"ephemeral": true}}}`, false},
		"switched off":                         {ephemeral, `{"spec": {"pod": {"ephemeral": false}}}`, false},
		"removed":                              {ephemeral, `{"spec": {"pod": {"ephemeral": null}}}`, false},
		"removed with pod":                     {ephemeral, `{"spec": {"pod": null}}`, false},
		"unset instead of false":               {of(1), `{"spec": {"pod": {"ephemeral": false}}}`, true},
		"kept":                                 {ephemeral, `{"spec": {"size": 3, "pod": {"labels": {"example.com/a": "b"}}}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.spec)
			err := w.tryChange(test.patch)
			if (err == nil) != test.accepted {
				t.Errorf("%s: %v", test.patch, err)
			}
			if !test.accepted && !strings.Contains(fmt.Sprint(err), "pod.ephemeral must stay as it is because") {
				t.Errorf("the message is %v", err)
			}
		})
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	spec := of(1)
	spec.Pod = &etcdv1beta2.PodPolicy{EtcdEnv: []corev1.EnvVar{{Name: "ETCD_LISTEN_CLIENT_HTTP_URLS", Value: "http://0.0.0.0:80"}}}
	w := newWorld(t, spec)
	w.bring()
	named := w.condition(etcdv1beta2.ConditionFieldsIgnored)
	if named.Status != metav1.ConditionTrue || !strings.Contains(named.Message, "spec.pod.etcdEnv[ETCD_LISTEN_CLIENT_HTTP_URLS]") {
		t.Errorf("the condition is %+v", named)
	}
}
