package apitest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
)

func TestAnnotationsWithoutEffectAreNamedUntilTheyAreRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ annotation, says string }{
		"a request for a certificate": {"strimzi.io/force-renew", "strimzi.io/force-renew has no effect on a KafkaAccess: set it on the Secret of its KafkaUser"},
		"a misspelled request":        {"keyturn.dev/acces-from", "keyturn.dev/acces-from has no effect on a KafkaAccess: remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cluster()
			w.access("my-user", func(access *accessv1alpha1.KafkaAccess) {
				access.Annotations = map[string]string{"a.person/was": "here"}
			})
			w.mustReconcile()
			if bound := w.status(); len(bound.Conditions) != 1 || w.reason("my-app") != "Bound" {
				t.Fatalf("the status is %+v", bound)
			}

			w.updateAccess(func(access *accessv1alpha1.KafkaAccess) { access.Annotations[c.annotation] = "true" })
			w.mustReconcile()

			warning := meta.FindStatusCondition(w.status().Conditions, "Warning")
			if warning == nil || warning.Reason != "AnnotationWithoutEffect" || !strings.Contains(warning.Message, c.says) || w.reason("my-app") != "Bound" {
				t.Errorf("the status is %+v", w.status())
			}
			w.updateAccess(func(access *accessv1alpha1.KafkaAccess) { delete(access.Annotations, c.annotation) })
			w.mustReconcile()
			if left := w.status(); len(left.Conditions) != 1 {
				t.Errorf("the status is %+v", left)
			}
		})
	}
}
