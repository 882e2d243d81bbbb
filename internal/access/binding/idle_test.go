package binding_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/access/binding"
)

// annotated are KafkaAccesses of both forms with the same annotations.
func annotated(annotations map[string]string) map[string]*binding.Access {
	return map[string]*binding.Access{
		"public":   accessTo(func(a *accessv1alpha1.KafkaAccess) { a.Annotations = annotations }),
		"proposed": proposed(func(a *kafkav1beta2.KafkaAccess) { a.Annotations = annotations }),
	}
}

func TestAnAnnotationWithoutEffectIsAWarningWhateverTheStateIs(t *testing.T) {
	t.Parallel()
	problem := &binding.NotReadyError{Reason: binding.WaitingForKafka}
	states := map[string]func(access *binding.Access) accessv1alpha1.KafkaAccessStatus{
		"first": func(access *binding.Access) accessv1alpha1.KafkaAccessStatus {
			return binding.First(access, time.Now())
		},
		"bound": func(access *binding.Access) accessv1alpha1.KafkaAccessStatus {
			return binding.Status(access, binding.Outcome{}, time.Now())
		},
		"not ready": func(access *binding.Access) accessv1alpha1.KafkaAccessStatus {
			return binding.Status(access, binding.Outcome{Problem: problem}, time.Now())
		},
	}
	for name, test := range map[string]struct{ key, says string }{
		"a request that belongs on the Secret of the user": {"strimzi.io/force-renew", "set it on the Secret of the KafkaUser"},
		"a pause":               {"strimzi.io/pause-reconciliation", "cannot be paused"},
		"consent":               {"keyturn.dev/access-from", "set it on the Kafka and the KafkaUser"},
		"a misspelled request":  {"keyturn.dev/force-renwe", "no annotation is read there"},
		"one of cert-manager":   {"cert-manager.io/issuer", "no annotation is read there"},
		"one with a line break": {"strimzi.io/a\nb", "strimzi.io/a"},
	} {
		for form, access := range annotated(map[string]string{test.key: "true"}) {
			for state, status := range states {
				t.Run(name+" "+form+" "+state, func(t *testing.T) {
					t.Parallel()
					bound := *access
					bound.Status = status(access)
					warning := binding.Warning(&bound)
					if warning == nil || warning.Status != metav1.ConditionTrue || warning.Reason != "AnnotationWithoutEffect" || !strings.Contains(warning.Message, test.says) {
						t.Errorf("the condition is %+v, want one that says %q", warning, test.says)
					}
					if binding.Ready(&bound) == nil {
						t.Error("there is no condition Ready")
					}
				})
			}
		}
	}
}

func TestAnnotationsOfOthersAreNoWarning(t *testing.T) {
	t.Parallel()
	for form, access := range annotated(map[string]string{"example.com/a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}", "argocd.argoproj.io/sync-wave": "1"}) {
		access.Status = binding.First(access, time.Now())
		if warning := binding.Warning(access); warning != nil {
			t.Errorf("%s: the condition is %+v", form, warning)
		}
	}
}

func TestAWarningEndsWithItsAnnotation(t *testing.T) {
	t.Parallel()
	for form, access := range annotated(map[string]string{"strimzi.io/force-renew": "true"}) {
		access.Status = binding.First(access, time.Now())
		access.Annotations = nil
		access.Status = binding.Status(access, binding.Outcome{}, time.Now())
		if warning := binding.Warning(access); warning != nil {
			t.Errorf("%s: the condition is %+v", form, warning)
		}
		access.Status.Conditions = append(access.Status.Conditions, metav1.Condition{Type: "Warning", Reason: "Theirs"})
		access.Status = binding.Status(access, binding.Outcome{}, time.Now())
		if warning := binding.Warning(access); warning == nil || warning.Reason != "Theirs" {
			t.Errorf("%s: of another writer's condition there is %+v", form, warning)
		}
	}
}

func TestManyAnnotationsMakeOneConditionThatTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("strimzi.io/%d-%s", i, strings.Repeat("x", 60))] = strings.Repeat("y", 200)
	}
	for form, access := range annotated(many) {
		access.Status = binding.First(access, time.Now())
		if warning := binding.Warning(access); warning == nil || len(warning.Message) > 8<<10 || len(access.Status.Conditions) != 3 {
			t.Errorf("%s: the status is %+v", form, access.Status)
		}
	}
}

func TestWhatFollowsFromReadyIsWrittenOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for form, access := range annotated(nil) {
		refused := binding.Outcome{Problem: &binding.NotReadyError{Reason: binding.NoListener}}
		access.Status = binding.Status(access, refused, now)
		if written := binding.Own(access.Status).Conditions; len(written) != 2 || written[1].Type != "Stalled" || written[1].Reason != "NoListener" {
			t.Errorf("%s: the conditions are %+v", form, written)
		}
		if !equality.Semantic.DeepEqual(access.Status, binding.Status(access, refused, now.Add(time.Hour))) {
			t.Errorf("%s: the status is written again", form)
		}
		access.Status.Conditions = append(access.Status.Conditions, metav1.Condition{Type: "OfAnotherController", Status: metav1.ConditionTrue})
		if next := binding.Status(access, refused, now.Add(time.Hour)); !equality.Semantic.DeepEqual(binding.Own(access.Status), binding.Own(next)) {
			t.Errorf("%s: a condition of another controller has the status written again", form)
		}
		access.Status.Conditions = access.Status.Conditions[:2]
		access.Status = binding.Status(access, binding.Outcome{}, now)
		if left := access.Status.Conditions; len(left) != 1 {
			t.Errorf("%s: once bound the conditions are %+v", form, left)
		}
	}
}
