package apitest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
)

// wantWarning checks the warnings of a status; an empty text means that there is none.
func wantWarning(t *testing.T, conditions []metav1.Condition, says string) {
	t.Helper()
	warning := meta.FindStatusCondition(conditions, "Warning")
	switch {
	case says == "":
		if warning != nil {
			t.Errorf("the condition is %+v, want none", warning)
		}
	case warning == nil || warning.Status != metav1.ConditionTrue || warning.Reason != "AnnotationWithoutEffect" || !strings.Contains(warning.Message, says):
		t.Errorf("the conditions are %+v, want a warning with %q", conditions, says)
	}
}

func TestAnAnnotationWithoutEffectIsAWarningUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	for name, annotation := range map[string]string{
		"a request that belongs on another object": "strimzi.io/force-renew",
		"a misspelled request":                     "keyturn.dev/acces-from",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.access("my-user", nil)
			w.mustReconcile()
			wantWarning(t, w.status().Conditions, "")

			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Annotations = map[string]string{annotation: "true"} })
			w.mustReconcile()
			wantWarning(t, w.status().Conditions, "Annotation "+annotation+" has no effect on a KafkaAccess")
			if reason := w.reason("my-app"); reason != "Bound" {
				t.Errorf("the reason is %s", reason)
			}
			if !slices.Contains(w.events, "AnnotationWithoutEffect") {
				t.Errorf("events are %v", w.events)
			}

			told := len(w.events)
			w.startOperator()
			w.mustReconcile()
			if w.faulty.Written > 0 || len(w.events) > told {
				t.Errorf("after a restart the operator writes %d times and %v", w.faulty.Written, w.events[told:])
			}

			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Annotations = nil })
			w.mustReconcile()
			wantWarning(t, w.status().Conditions, "")
		})
	}
}

func TestAnAnnotationWithoutEffectOfTheProposedFormIsAWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.realCluster()
	w.proposedAccess("my-app", "my-user", func(a *kafkav1beta2.KafkaAccess) {
		a.Annotations = map[string]string{"strimzi.io/force-renew": "true"}
	})
	access := w.mustReconcileProposed("my-app")
	wantWarning(t, access.Status.Conditions, "set it on the Secret of the KafkaUser")
	if access.Status.Binding == nil {
		t.Errorf("the status is %+v", access.Status)
	}
}

func TestAKafkaAccessThatIsNotReadyHasItsWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.access("my-user", func(a *accessv1alpha1.KafkaAccess) {
		a.Annotations = map[string]string{"strimzi.io/force-renew": "true"}
	})
	w.mustReconcile()
	wantWarning(t, w.status().Conditions, "strimzi.io/force-renew")
	if reason := w.reason("my-app"); reason != "MissingKubernetesResource" {
		t.Errorf("the reason is %s", reason)
	}
}

func TestARunningOperatorNoticesAnAnnotationWithoutEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.runOperator()
	w.await("the KafkaAccess is bound", func() bool { return w.reason("my-app") == "Bound" })
	warns := func() bool { return meta.FindStatusCondition(w.status().Conditions, "Warning") != nil }

	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) {
		a.Annotations = map[string]string{"strimzi.io/force-renew": "true"}
	})
	w.await("there is a warning", warns)
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Annotations = nil })
	w.await("the warning is removed", func() bool { return !warns() })
}
