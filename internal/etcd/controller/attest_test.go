package controller

import (
	"context"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/model"
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
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, etcdv1beta2.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			attestor := &found{verdict: attestation.Verdict{Reason: attestation.PolicyMissing}}
			r := New(Options{
				Client:   fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.objects...).Build(),
				Attestor: attestor, Metrics: NewMetrics(), Log: logr.Discard(),
			})
			var looked []string
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for event := range r.attested {
					looked = append(looked, event.Object.GetName())
				}
			}()
			if err := r.testOnce(t.Context()); err != nil {
				t.Error(err)
			}
			close(r.attested)
			<-ended
			if attestor.tests != test.tests || !slices.Equal(looked, test.looked) {
				t.Errorf("%d tests, and %v are looked at; want %d and %v", attestor.tests, looked, test.tests, test.looked)
			}
		})
	}
}
