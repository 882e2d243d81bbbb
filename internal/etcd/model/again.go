package model

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
)

// longestWait is how long an object waits at most for what no event tells of.
const longestWait = 10 * time.Minute

// Again is how soon an object is looked at again that waits for what no event tells of: after as long as it has waited
// already, and never sooner than soonest. Tenants can create many that wait without an end.
func Again(conditions []metav1.Condition, soonest time.Duration, now time.Time) time.Duration {
	ready := apimeta.FindStatusCondition(conditions, keyturnv1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return soonest
	}
	return min(max(now.Sub(ready.LastTransitionTime.Time), soonest), longestWait)
}
