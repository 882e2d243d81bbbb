package cli

import (
	"context"
	"encoding/base64"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// etcdWorld is a namespace with an EtcdCluster of two members, one of which asks with another key than it has a certificate for.
func etcdWorld(t *testing.T) []client.Object {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "kafka", Name: name} }
	etcd := &etcdv1beta2.EtcdCluster{ObjectMeta: meta("my-cluster"), Status: etcdv1beta2.EtcdClusterStatus{
		CurrentVersion: "3.6.16",
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse, Reason: "RequestDenied", Message: "The peer request of pod my-cluster-1 is denied (KeyOfAnotherPod)."},
			{Type: "Available", Status: metav1.ConditionTrue, Reason: "QuorumReady", Message: "1 of 2 members are ready."},
			{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "RequestDenied", Message: "The peer request of pod my-cluster-1 is denied (KeyOfAnotherPod)."},
		},
		MemberStatuses: []etcdv1beta2.MemberStatus{
			{Name: "my-cluster-0", Version: "3.6.16", Role: etcdv1beta2.RoleVoter, Ready: true},
			{Name: "my-cluster-1", Version: "3.6.16", Role: etcdv1beta2.RoleLearner},
		},
	}}
	secret := &corev1.Secret{ObjectMeta: meta("my-cluster-0"), Data: map[string][]byte{}}
	pods := []*corev1.Pod{{ObjectMeta: meta("my-cluster-0")}, {ObjectMeta: meta("my-cluster-1")}}
	for _, plane := range contract.Planes() {
		ca := pkitest.CA(t, "my-cluster "+string(plane)+"-ca v0", at())
		secret.Data[plane.AnchorsKey()] = pki.EncodeBundle(ca.Certificate())
		for i, pod := range pods {
			annotations := map[string]string{}
			if i == 0 || plane == contract.ClientPlane {
				annotations = enrolled(t, plane, ca)
			}
			if i == 1 && plane == contract.PeerPlane {
				annotations[plane.RequestAnnotation()] = enrolled(t, plane, ca)[plane.RequestAnnotation()]
			}
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			maps.Copy(pod.Annotations, annotations)
		}
		presented := pki.FingerprintOf(ca.Certificate()).String() // of the client port etcd presents another one
		if plane == contract.PeerPlane {
			chain, err := enroll.Chain(pods[0].Annotations[plane.CertificateAnnotation()])
			if err != nil {
				t.Fatal(err)
			}
			presented = pki.FingerprintOf(chain[0]).String()
		}
		first := &etcd.Status.MemberStatuses[0]
		first.Loaded = append(first.Loaded, etcdv1beta2.LoadedPlane{Plane: string(plane), Presents: presented})
	}
	return []client.Object{etcd, secret, pods[0], pods[1]}
}

// enrolled are the annotations with a request and its answer.
func enrolled(t *testing.T, plane contract.Plane, ca pki.Authority) map[string]string {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.NewRequest(key, pki.Subject{CommonName: "member"}, pki.SANs{})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "member"}, Usages: pki.BothUsages(), Validity: 720 * time.Hour, Now: at(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		plane.RequestAnnotation():     base64.StdEncoding.EncodeToString(request),
		plane.CertificateAnnotation(): base64.StdEncoding.EncodeToString(pki.EncodeBundle(leaf)),
	}
}

func TestStatusOfAnEtcdClusterShowsItsCAsMembersAndRequests(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(etcdWorld(t)...).Build()
	for output, file := range map[string]string{"table": "etcd.txt", "yaml": "etcd.yaml"} {
		out, err := callOn(t.Context(), api, statusCommand, "etcd/my-cluster", "-o", output)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("status", file), out)
	}
}

func TestStatusOfAStaticEtcdClusterShowsItsMembers(t *testing.T) {
	t.Parallel()
	objects := etcdWorld(t)
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(objects[0]).Build()
	out, err := callOn(t.Context(), api, statusCommand, "etcd/my-cluster")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("status", "etcd-static.txt"), out)
}

func TestStatusOfAnEtcdClusterWithoutTheRightToSecretsShowsTheRest(t *testing.T) {
	t.Parallel()
	forbidden := interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*corev1.Secret); is {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
		}
		return api.Get(ctx, key, object, options...)
	}}
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(etcdWorld(t)...).WithInterceptorFuncs(forbidden).Build()
	out, err := callOn(t.Context(), api, statusCommand, "etcd/my-cluster")
	if err != nil || !strings.Contains(out, "The CAs are not shown: Secret my-cluster-0") || !strings.Contains(out, "my-cluster-1") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

func TestStatusOfAnEtcdClusterThatDoesNotExistSaysSo(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().WithScheme(newScheme()).Build()
	for argument, want := range map[string]string{"etcd/other": "reading EtcdCluster kafka/other", "etcd/": "does not name"} {
		if _, err := callOn(t.Context(), api, statusCommand, argument); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", argument, err, want)
		}
	}
}

func TestStatusOfAnEtcdClusterThatNoOperatorHasReconciledSaysSo(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(&etcdv1beta2.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-cluster"},
	}).Build()
	out, err := callOn(t.Context(), api, statusCommand, "etcd/my-cluster")
	if err != nil || !strings.Contains(out, "No operator has reconciled this EtcdCluster.") || !strings.Contains(out, "watches namespace kafka") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}
