package binding

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// ConditionReady is the type of the condition that each KafkaAccess has.
const ConditionReady = "Ready"

// Outcome is what a reconcile has come to.
type Outcome struct {
	// Problem is nil when the Secret has been written.
	Problem *NotReadyError
	// Listener is the one that the Secret is about.
	Listener string
	// Withdrawn says that there is no Secret any more, because what it was written from is no longer allowed.
	Withdrawn bool
}

// Ready returns the condition Ready of a KafkaAccess, nil before it has one.
func Ready(access *Access) *metav1.Condition {
	return meta.FindStatusCondition(access.Status.Conditions, ConditionReady)
}

// IsBound reports whether the KafkaAccess has the Secret that this generation asks for, and none of an earlier name.
func IsBound(access *Access) bool {
	condition, bound := Ready(access), access.Status.Binding
	return condition != nil && condition.Status == metav1.ConditionTrue && access.Status.ObservedGeneration == access.Generation &&
		bound != nil && bound.Name == access.SecretName()
}

// First is the status of a KafkaAccess that has not been looked at before.
func First(access *Access, now time.Time) accessv1alpha1.KafkaAccessStatus {
	return status(access, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: string(Reconciling),
		Message: "The KafkaAccess is being reconciled. The Secret is not written yet. Wait.",
	}, now)
}

// Status is the status after a reconcile. While there is a problem the binding stays, unless consent was withdrawn:
// applications that use the Secret keep it.
func Status(access *Access, outcome Outcome, now time.Time) accessv1alpha1.KafkaAccessStatus {
	if outcome.Problem != nil {
		next := status(access, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: string(outcome.Problem.Reason), Message: outcome.Problem.Error(),
		}, now)
		if outcome.Withdrawn {
			next.Binding = nil
		}
		return next
	}
	next := status(access, metav1.Condition{
		Status: metav1.ConditionTrue, Reason: string(Bound),
		Message: fmt.Sprintf("Secret %s has what a client of listener %s needs.", access.SecretName(), outcome.Listener),
	}, now)
	next.Binding = &accessv1alpha1.Binding{Name: access.SecretName()}
	return next
}

func status(access *Access, condition metav1.Condition, now time.Time) accessv1alpha1.KafkaAccessStatus {
	next := *access.Status.DeepCopy()
	// The conditions have no generation of their own: the definition of the public operator does not know that field.
	next.ObservedGeneration = access.Generation
	condition.Type = ConditionReady
	condition.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&next.Conditions, condition)
	setWarning(&next.Conditions, access, condition.LastTransitionTime)
	next.Conditions = kstatus.Standard(next.Conditions, access.Status.Conditions, now)
	return next
}

// Own is what the operator writes of a status: its own conditions and no others.
func Own(status accessv1alpha1.KafkaAccessStatus) accessv1alpha1.KafkaAccessStatus {
	status.Conditions = ownConditions(status.Conditions)
	return status
}
