package apitest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// application is the name of an EtcdAccess.
const application = "my-app"

// access creates an EtcdAccess to the cluster, in a namespace.
func (w *world) access(namespace, request string) *keyturnv1alpha1.EtcdAccess {
	w.t.Helper()
	access := &keyturnv1alpha1.EtcdAccess{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application},
		Spec:       keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: cluster, Namespace: w.namespace}, Request: request},
	}
	w.create(access)
	return access
}

// tryAccess reconciles an EtcdAccess once.
func (w *world) tryAccess(namespace string) (ctrl.Result, error) {
	key := types.NamespacedName{Namespace: namespace, Name: application}
	return w.operator.ReconcileAccess(w.t.Context(), ctrl.Request{NamespacedName: key})
}

// grants reconciles an EtcdAccess once and returns its status.
func (w *world) grants(namespace string) keyturnv1alpha1.EtcdAccessStatus {
	w.t.Helper()
	if _, err := w.tryAccess(namespace); err != nil {
		w.t.Fatal(err)
	}
	access := &keyturnv1alpha1.EtcdAccess{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: application}, access); err != nil {
		w.t.Fatal(err)
	}
	return access.Status
}

func (w *world) wantAccess(namespace, reason string) keyturnv1alpha1.EtcdAccessStatus {
	w.t.Helper()
	status := w.grants(namespace)
	if len(status.Conditions) == 0 || status.Conditions[0].Reason != reason {
		w.t.Errorf("the conditions are %+v, want %s", status.Conditions, reason)
	}
	return status
}

func (w *world) consent(namespaces string) {
	w.t.Helper()
	w.change(fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, model.ConsentAnnotation, namespaces))
}

// clientLeaf is the certificate of an application, verified by the CA that comes with it.
func (w *world) clientLeaf(namespace string) *x509.Certificate {
	w.t.Helper()
	data := w.secret(namespace, application).Data
	chain, err := pki.ParseChain(data["tls.crt"])
	if err != nil {
		w.t.Fatal(err)
	}
	anchors, err := pki.ParseBundle(data["ca.crt"])
	if err != nil {
		w.t.Fatal(err)
	}
	if err := pki.Verify(chain, anchors, w.clock.Now(), pki.ClientAuth); err != nil {
		w.t.Errorf("the certificate is not valid for clients: %v", err)
	}
	return chain[0]
}

// belongs reports whether a certificate is for a key.
func belongs(leaf *x509.Certificate, key pki.PrivateKey) bool {
	public, is := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return is && public.Equal(key.Signer().Public())
}

func newRequest(t *testing.T, key pki.PrivateKey) string {
	t.Helper()
	request, err := pki.NewRequest(key, pki.Subject{CommonName: "root", Organization: "keyturn.dev"}, pki.SANs{DNS: []string{"elsewhere.example"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(request)
}

func weakRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := pkitest.Request(t, key, "", "other.example.com", netip.AddrFrom4([4]byte{10, 0, 0, 9}))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func newKey(t *testing.T, params pki.KeyParams) pki.PrivateKey {
	t.Helper()
	key, err := pki.GenerateKey(params)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestAnApplicationGetsACertificateOfTheClusterAndKeepsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.access(w.namespace, "")
	w.wantAccess(w.namespace, "CANotReady")
	w.bring()
	status := w.wantAccess(w.namespace, "SecretReady")
	leaf := w.clientLeaf(w.namespace)
	if want := w.namespace + ":" + application; leaf.Subject.CommonName != want || status.User != want || len(leaf.Subject.Organization) > 0 {
		t.Errorf("the subject is %s and the user %s, want %s", leaf.Subject, status.User, want)
	}
	if status.Binding == nil || status.Binding.Name != application || !status.NotAfter.Time.Equal(leaf.NotAfter) {
		t.Errorf("the status is %+v", status)
	}
	data := w.secret(w.namespace, application).Data
	if want := "https://my-cluster-client." + w.namespace + ".svc:2379"; string(data["endpoints"]) != want {
		t.Errorf("endpoints are %s, want %s", data["endpoints"], want)
	}
	key, err := pki.ParsePrivateKey(data["tls.key"])
	if err != nil || !belongs(leaf, key) {
		t.Errorf("tls.key is not the key of tls.crt: %v", err)
	}
	if !w.told("CertificateIssued") {
		t.Error("no event tells of the certificate")
	}
	if serial := leaf.SerialNumber.Text(16); w.ledger()[serial].SPKI == "" {
		t.Errorf("the ledger does not have certificate %s", serial)
	}
	w.writer.Sent = 0
	w.grants(w.namespace)
	w.restart()
	w.grants(w.namespace)
	if w.writer.Sent > 0 {
		t.Errorf("%d writes although nothing has changed, the last was %s", w.writer.Sent, w.writer.Last)
	}
	w.clock.SetTime(noon().Add(481 * time.Hour))
	w.grants(w.namespace)
	if renewed := w.clientLeaf(w.namespace); renewed.Equal(leaf) || pki.KeyIDOf(renewed) != pki.KeyIDOf(leaf) {
		t.Errorf("after two thirds of its life the certificate is %s, want another one of the same key", renewed.SerialNumber)
	}
}

func TestAnApplicationKeepsAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	key := newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	w.access(w.namespace, newRequest(t, key))
	w.wantAccess(w.namespace, "SecretReady")
	leaf := w.clientLeaf(w.namespace)
	if !belongs(leaf, key) || leaf.Subject.CommonName != w.namespace+":"+application || len(leaf.DNSNames) > 0 {
		t.Errorf("the certificate is for %s and %v, want the key alone of the request", leaf.Subject, leaf.DNSNames)
	}
	if _, has := w.secret(w.namespace, application).Data["tls.key"]; has {
		t.Error("the Secret has a key")
	}
}

func TestARequestOfAnApplicationThatCannotBeSignedIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	member, err := base64.StdEncoding.DecodeString(w.pod(first).Annotations["kubeEtcdCSR-client"])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ request, says string }{
		"no request":            {"none", "RequestUnreadable"},
		"a weak key":            {weakRequest(t), "RequestKeyTooWeak"},
		"the key of a member":   {string(member), "KeyOfAnotherPod"},
		"a certificate instead": {string(w.secret(w.private, w.namespace+".my-cluster-client-ca-cert").Data["ca.crt"]), "RequestUnreadable"},
	} {
		namespace := kubetest.Namespace(t, w.person, "app-")
		w.consent(namespace)
		w.access(namespace, c.request)
		status := w.wantAccess(namespace, "RequestDenied")
		if !strings.Contains(status.Conditions[0].Message, c.says) || status.Binding != nil {
			t.Errorf("%s: the status is %+v, want %s and no Secret", name, status, c.says)
		}
	}
}

func TestAnotherNamespaceNeedsConsentAndLosesTheSecretWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	namespace := kubetest.Namespace(t, w.person, "app-")
	w.access(namespace, "")
	w.wantAccess(namespace, "NamespaceNotAllowed")
	for _, consent := range []string{"other, " + namespace, "*"} {
		w.consent(consent)
		w.wantAccess(namespace, "SecretReady")
		if leaf := w.clientLeaf(namespace); leaf.Subject.CommonName != namespace+":"+application {
			t.Errorf("the user is %s", leaf.Subject.CommonName)
		}
		w.consent("other")
		if status := w.wantAccess(namespace, "NamespaceNotAllowed"); status.Binding != nil || status.User != "" {
			t.Errorf("the status still has %+v", status)
		}
		err := w.person.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: application}, &corev1.Secret{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the Secret is there after consent was withdrawn: %v", err)
		}
	}
}

func TestASecretOfOthersIsNotChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.create(&corev1.Secret{ObjectMeta: w.meta(application), Data: map[string][]byte{"a": []byte("b")}})
	w.access(w.namespace, "")
	w.wantAccess(w.namespace, "ForeignObject")
	if data := w.secret(w.namespace, application).Data; len(data) != 1 {
		t.Errorf("the Secret has %d entries", len(data))
	}
}

func TestASecretThatIsLostOrEditedIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.access(w.namespace, "")
	w.grants(w.namespace)
	for name, harm := range map[string]func(secret *corev1.Secret) error{
		"deleted": func(secret *corev1.Secret) error { return w.person.Delete(t.Context(), secret) },
		"edited": func(secret *corev1.Secret) error {
			secret.Data["tls.crt"], secret.Data["ca.crt"] = secret.Data["ca.crt"], nil
			return w.person.Update(t.Context(), secret)
		},
		"without its key": func(secret *corev1.Secret) error {
			delete(secret.Data, "tls.key")
			return w.person.Update(t.Context(), secret)
		},
	} {
		if err := harm(w.secret(w.namespace, application)); err != nil {
			t.Fatal(err)
		}
		w.wantAccess(w.namespace, "SecretReady")
		data := w.secret(w.namespace, application).Data
		key, err := pki.ParsePrivateKey(data["tls.key"])
		if leaf := w.clientLeaf(w.namespace); err != nil || !belongs(leaf, key) || bytes.Equal(data["ca.crt"], data["tls.crt"]) {
			t.Errorf("%s: key and certificate do not belong together: %v", name, err)
		}
	}
}

func TestACrashAfterAnyWriteLeavesAnAccessThatIsCompletedAndInTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	var writes int
	for crash := 1; ; crash++ {
		namespace := kubetest.Namespace(t, w.person, "app-")
		w.consent(namespace)
		w.access(namespace, "")
		w.restart()
		w.writer.CrashAt = crash
		_, err := w.tryAccess(namespace)
		w.restart()
		w.wantAccess(namespace, "SecretReady")
		if serial := w.clientLeaf(namespace).SerialNumber.Text(16); w.ledger()[serial].SPKI == "" {
			t.Errorf("after a crash before write %d the ledger does not have the certificate", crash)
		}
		if err == nil {
			writes = crash - 1
			break
		}
	}
	if writes != 4 {
		t.Errorf("there are %d writes, want a dry run, ledger, Secret and status", writes)
	}
}

func TestAnAccessWithANameThatIsTooLongIsToldSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	access := &keyturnv1alpha1.EtcdAccess{
		ObjectMeta: w.meta(strings.Repeat("a", 64)),
		Spec:       keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: cluster}},
	}
	w.create(access)
	if _, err := w.operator.ReconcileAccess(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(access)}); err != nil {
		t.Fatal(err)
	}
	if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(access), access); err != nil {
		t.Fatal(err)
	}
	if got := access.Status.Conditions; len(got) == 0 || got[0].Reason != "NameTooLong" || !strings.Contains(got[0].Message, "shorter name") {
		t.Errorf("the conditions are %+v, want NameTooLong", got)
	}
}

func TestADeletedClusterLeavesTheSecretOfAnApplicationAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.access(w.namespace, "")
	w.grants(w.namespace)
	before := w.clientLeaf(w.namespace)
	if err := w.person.Delete(t.Context(), &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster)}); err != nil {
		t.Fatal(err)
	}
	w.wantAccess(w.namespace, "CANotReady")
	for range 10 {
		w.reconcile()
		w.play()
	}
	w.wantAccess(w.namespace, "NamespaceNotAllowed")
	if after := w.clientLeaf(w.namespace); !after.Equal(before) {
		t.Error("the certificate was replaced")
	}
}
