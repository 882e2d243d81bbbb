package binding

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/unattended"
)

// Unattended is what becomes of KafkaAccesses of a form at which no access operator looks.
func Unattended(form Form) unattended.Kind {
	return unattended.Kind{
		GroupVersionKind: form.GroupVersion.WithKind("KafkaAccess"), Owner: Owner, Condition: ConditionReady, Status: metav1.ConditionFalse,
		Message: func(metav1.Object) string {
			return "No access operator has looked at this KafkaAccess, and its Secret is not written. Set accessOperator.enabled in the values of the chart. " +
				"If it runs, see why it is not ready."
		},
	}
}
