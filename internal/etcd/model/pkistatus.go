package model

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/pki"
)

// Reasons of an EtcdPKI that is ready.
const (
	SelfSigned    Reason = "SelfSigned"
	SignedOutside Reason = "SignedOutside"
)

// PKISeen is what the status of an EtcdPKI is made of.
type PKISeen struct {
	PKI *keyturnv1alpha1.EtcdPKI
	// Requests and CAs are those of each plane, none when the operator signs its CAs itself.
	Requests map[contract.Plane][]byte
	CAs      map[contract.Plane]Signed
	// Problem keeps the operator from asking for certificates, nil when none does.
	Problem *Problem
	Now     time.Time
}

// PKIStatus is what the status of an EtcdPKI shall be.
func PKIStatus(seen PKISeen) keyturnv1alpha1.EtcdPKIStatus {
	condition := seen.ready()
	condition.ObservedGeneration = seen.PKI.Generation
	return keyturnv1alpha1.EtcdPKIStatus{
		Conditions:         kstatus.Standard([]metav1.Condition{condition}, seen.PKI.Status.Conditions, seen.Now),
		ObservedGeneration: seen.PKI.Generation,
		Requests: keyturnv1alpha1.PKIRequests{
			Client: string(seen.Requests[contract.ClientPlane]), Peer: string(seen.Requests[contract.PeerPlane]),
		},
	}
}

// Remarks are those of both planes.
func (s PKISeen) Remarks() []string {
	var remarks []string
	for _, plane := range contract.Planes() {
		remarks = append(remarks, s.CAs[plane].Remarks...)
	}
	return remarks
}

func (s PKISeen) ready() metav1.Condition {
	if s.Problem != nil {
		return newCondition(keyturnv1alpha1.ConditionReady, metav1.ConditionFalse, s.Problem.Reason, s.Problem.Message)
	}
	if s.PKI.Spec.Mode != keyturnv1alpha1.Outside {
		return newCondition(keyturnv1alpha1.ConditionReady, metav1.ConditionTrue, SelfSigned, "The operator signs its CAs itself.")
	}
	var reason Reason
	var problems, signed []string
	for _, plane := range contract.Planes() {
		ca := s.CAs[plane]
		if ca.Problem == nil {
			signed = append(signed, fmt.Sprintf("The %s CA is signed by %s until %s.", plane, excerpt.Of(ca.Chain[0].Issuer.String(), maxCause), stamp(pki.EarliestEnd(pathOf(ca.Chain, s.Now)))))
			continue
		}
		if reason == "" {
			reason = ca.Problem.Reason
		}
		problems = append(problems, ca.Problem.Message)
	}
	if len(problems) > 0 {
		return newCondition(keyturnv1alpha1.ConditionReady, metav1.ConditionFalse, reason, strings.Join(problems, " "))
	}
	return newCondition(keyturnv1alpha1.ConditionReady, metav1.ConditionTrue, SignedOutside, strings.Join(append(signed, s.Remarks()...), " "))
}
