package model

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// attested is the condition about attestation; none where the cluster asks for none. One that was not tested now is as
// it was: there is no pod to test it with.
func (c Cluster) attested(seen Seen) []metav1.Condition {
	if c.TLS.Attestation != etcdv1beta2.AttestationPolicy {
		return nil
	}
	verdict := seen.Attestation
	if verdict.Reason == "" {
		if before := apimeta.FindStatusCondition(seen.Before.Conditions, etcdv1beta2.ConditionAttestationEnforced); before != nil {
			return []metav1.Condition{*before}
		}
		return nil
	}
	status := metav1.ConditionFalse
	if verdict.IsEnforced() {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{newCondition(etcdv1beta2.ConditionAttestationEnforced, status, Reason(verdict.Reason), verdict.Message)}
}
