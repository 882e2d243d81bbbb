package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// found is an Attestor that has found something.
type found struct {
	verdict attestation.Verdict
	tests   int
}

func (f *found) Verdict(context.Context, ...*corev1.Pod) attestation.Verdict {
	f.tests++
	return f.verdict
}

// clusterWith is a cluster with a kind of attestation, whose condition has a reason.
func clusterWith(name string, kind etcdv1beta2.Attestation, reason attestation.Reason) *etcdv1beta2.EtcdCluster {
	cluster := &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: name}, Spec: etcdv1beta2.EtcdClusterSpec{
		Size: 1, TLS: &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{Attestation: kind}},
	}}
	if reason != "" {
		cluster.Status.Conditions = []metav1.Condition{{Type: etcdv1beta2.ConditionAttestationEnforced, Reason: string(reason)}}
	}
	return cluster
}

func TestOneTestIsForAllClustersThatNeedIt(t *testing.T) {
	t.Parallel()
	const policy, annotation = etcdv1beta2.AttestationPolicy, etcdv1beta2.AttestationAnnotation
	member := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "etcd", Name: "my-cluster-0", Labels: map[string]string{model.ManagedByLabel: model.Manager},
	}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: "other"}}
	for name, test := range map[string]struct {
		objects []client.Object
		tests   int
		looked  []string
	}{
		"the condition of one differs": {[]client.Object{
			member, clusterWith("as-found", policy, attestation.PolicyMissing), clusterWith("differs", policy, attestation.PolicyEnforced),
			clusterWith("is-new", "", ""), clusterWith("needs-none", annotation, ""),
		}, 1, []string{"differs", "is-new"}},
		"none needs it": {[]client.Object{member, clusterWith("needs-none", annotation, "")}, 0, nil},
		"no member":     {[]client.Object{other, clusterWith("is-new", policy, "")}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := kubetest.Scheme(t, etcdv1beta2.AddToScheme)
			attestor := &found{verdict: attestation.Verdict{Reason: attestation.PolicyMissing}}
			r := New(Options{
				Client:   fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.objects...).Build(),
				Attestor: attestor, Metrics: NewMetrics(), Log: logr.Discard(),
			})
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			if err := errors.Join(r.changed.Source().Start(t.Context(), queue), r.testOnce(t.Context())); err != nil {
				t.Error(err)
			}
			var looked []string
			for range queue.Len() {
				request, _ := queue.Get()
				looked = append(looked, request.Name)
			}
			if attestor.tests != test.tests || !slices.Equal(looked, test.looked) {
				t.Errorf("%d tests, and %v are looked at; want %d and %v", attestor.tests, looked, test.tests, test.looked)
			}
		})
	}
}

// The authorizer or a webhook may deny the change with the same code.
func TestOnlyADenialByThePolicyShowsThatItIsInForce(t *testing.T) {
	t.Parallel()
	expected, err := attestation.Expect(attestation.Settings{Name: "members", OperatorUser: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "members", UID: "a"}
	for denial, want := range map[string]attestation.Reason{
		"ValidatingAdmissionPolicy 'members' with binding 'members' denied request: no": attestation.PolicyEnforced,
		"ValidatingAdmissionPolicy 'others' with binding 'members' denied request: no":  attestation.PolicyNotTested,
		"admission webhook \"members\" denied the request":                              attestation.PolicyNotTested,
		"": attestation.PolicyNotTested,
	} {
		refusing := interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "my-cluster-0", errors.New(denial))
			forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: denial}}
			return forbidden
		}}
		server := fake.NewClientBuilder().WithInterceptorFuncs(refusing).WithObjects(
			&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: expected.Policy},
			&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: expected.Binding},
		).Build()
		tester := &PolicyTester{Client: server, Live: server, Expected: expected, Clock: clock.RealClock{}, Metrics: NewMetrics()}
		if verdict := tester.Verdict(t.Context(), &corev1.Pod{}); verdict.Reason != want {
			t.Errorf("after %q, the verdict is %+v, want %s", denial, verdict, want)
		}
	}
}
