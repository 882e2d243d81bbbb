package model_test

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func TestTheConditionSaysWhetherRequestsAreAttested(t *testing.T) {
	t.Parallel()
	before := []metav1.Condition{{Type: etcdv1beta2.ConditionAttestationEnforced, Status: metav1.ConditionTrue, Reason: "PolicyEnforced"}}
	missing := attestation.Verdict{Reason: attestation.PolicyMissing, Message: "It does not exist."}
	for name, test := range map[string]struct {
		mode    *etcdv1beta2.Attestation
		verdict attestation.Verdict
		before  []metav1.Condition
		status  metav1.ConditionStatus
		reason  string
	}{
		"it is in force":             {verdict: attestation.Verdict{Reason: attestation.PolicyEnforced}, status: metav1.ConditionTrue, reason: "PolicyEnforced"},
		"it is missing":              {verdict: missing, before: before, status: metav1.ConditionFalse, reason: "PolicyMissing"},
		"asked for by name":          {mode: new(etcdv1beta2.AttestationPolicy), verdict: missing, status: metav1.ConditionFalse, reason: "PolicyMissing"},
		"unset":                      {mode: new(etcdv1beta2.Attestation("")), verdict: missing, status: metav1.ConditionFalse, reason: "PolicyMissing"},
		"not tested yet":             {},
		"not tested now":             {before: before, status: metav1.ConditionTrue, reason: "PolicyEnforced"},
		"a cluster that needs none":  {mode: new(etcdv1beta2.AttestationAnnotation), verdict: missing},
		"a cluster that needed some": {mode: new(etcdv1beta2.AttestationAnnotation), before: before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			etcd.Spec.TLS = nil
			if test.mode != nil {
				etcd.Spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{Attestation: *test.mode}}
			}
			cluster, _ := model.Resolve(etcd, settings())
			status := cluster.Status(model.Seen{Before: etcdv1beta2.EtcdClusterStatus{Conditions: test.before}, Attestation: test.verdict, Now: noon()})
			condition := apimeta.FindStatusCondition(status.Conditions, etcdv1beta2.ConditionAttestationEnforced)
			if condition == nil {
				condition = &metav1.Condition{}
			}
			if condition.Status != test.status || condition.Reason != test.reason {
				t.Errorf("it is %s %s, want %s %s", condition.Status, condition.Reason, test.status, test.reason)
			}
		})
	}
}
