package binding

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/idle"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// warning is the type of the condition that exists while something written in the KafkaAccess does nothing.
const warning = "Warning"

// AnnotationWithoutEffect says that the KafkaAccess has annotations that nothing reads there.
const AnnotationWithoutEffect Reason = "AnnotationWithoutEffect"

// annotationsOf is what annotations mean on a KafkaAccess.
func annotationsOf() idle.Kind {
	return idle.Kind{Name: "a KafkaAccess", IsRequest: authorities.OwnKey, Elsewhere: map[string]string{
		authorities.ForceRenewAnnotation: "set it on the Secret of the KafkaUser, and remove it here",
		authorities.PauseAnnotation:      "a KafkaAccess cannot be paused, so remove it",
		ConsentAnnotation:                "set it on the Kafka and the KafkaUser that may be referred to, and remove it here",
	}}
}

// IdleAnnotations are those of the annotations of a KafkaAccess that its status warns of, without their values.
func IdleAnnotations(annotations map[string]string) map[string]string {
	return annotationsOf().Keep(annotations)
}

// Warning returns the condition Warning of a KafkaAccess, nil when it has none.
func Warning(access *Access) *metav1.Condition {
	return meta.FindStatusCondition(access.Status.Conditions, warning)
}

// setWarning replaces the operator's own warning. One of another writer stays while there is nothing to warn of.
func setWarning(conditions *[]metav1.Condition, access *Access, at metav1.Time) {
	found := annotationsOf().Find(access.Annotations)
	if len(found) > 0 {
		sentences := make([]string, 0, len(found))
		for _, annotation := range found {
			sentences = append(sentences, fmt.Sprintf("Annotation %s %s.", excerpt.Of(annotation.Key, excerpt.Foreign), annotation.Why))
		}
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: warning, Status: metav1.ConditionTrue, Reason: string(AnnotationWithoutEffect),
			Message: excerpt.Of(strings.Join(sentences, " "), maxMessage), LastTransitionTime: at,
		})
		return
	}
	if condition := meta.FindStatusCondition(*conditions, warning); condition != nil && condition.Reason == string(AnnotationWithoutEffect) {
		meta.RemoveStatusCondition(conditions, warning)
	}
}

// ownConditions are those that the operator writes.
func ownConditions(conditions []metav1.Condition) []metav1.Condition {
	var own []metav1.Condition
	for _, condition := range conditions {
		isWarning := condition.Type == warning && condition.Reason == string(AnnotationWithoutEffect)
		if condition.Type == ConditionReady || isWarning || kstatus.IsDerived(condition.Type) {
			own = append(own, condition)
		}
	}
	return own
}
