package apitest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
)

func TestARenamedSecretReplacesThePreviousOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" })
	w.mustReconcile()
	if w.data("my-app") != nil {
		t.Error("the previous Secret is left")
	}
	if diff := cmp.Diff(bound(), w.data("renamed")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
	if status := w.status(); status.Binding.Name != "renamed" {
		t.Errorf("the binding is %s", status.Binding.Name)
	}
}

// A crash between two names leaves a Secret that neither spec nor status names.
func TestNoSecretOfAnEarlierNameIsLeftWhereverTheOperatorCrashes(t *testing.T) {
	t.Parallel()
	named := func(name string) func(a *accessv1alpha1.KafkaAccess) {
		return func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = name }
	}
	for name, test := range map[string]struct {
		then func(kafkas, apps *world)
		left []string
	}{
		"a third name":         {then: func(_, apps *world) { apps.updateAccess(named("third")) }, left: []string{"third"}},
		"the first name again": {then: func(_, apps *world) { apps.updateAccess(named("my-app")) }, left: []string{"my-app"}},
		"a third name, without consent": {then: func(kafkas, apps *world) {
			apps.updateAccess(named("third"))
			kafkas.allowAll("")
		}},
		"a third name while the spec is bad, then no consent": {then: func(kafkas, apps *world) {
			apps.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName, a.Spec.Kafka.Listener = "third", "none" })
			apps.startOperator()
			apps.mustReconcile()
			kafkas.allowAll("")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for crash := range 4 {
				kafkas, apps := newWorld(t), newWorld(t)
				kafkas.cluster()
				kafkas.allowAll(apps.namespace)
				apps.access("my-user", across(kafkas))
				apps.mustReconcile()
				apps.updateAccess(named("second"))
				apps.startOperator()
				apps.faulty.CrashAt = crash
				if crashed := apps.reconcile() != nil; crashed != (crash > 0) {
					t.Errorf("it crashes at write %d: %t", crash, crashed)
				}
				test.then(kafkas, apps)
				apps.startOperator()
				apps.mustReconcile()
				if left := apps.written(); !slices.Equal(left, test.left) {
					t.Errorf("after a crash at write %d the Secrets are %v (%s)", crash, left, apps.reason("my-app"))
				}
				apps.faulty.Written = 0
				apps.mustReconcile()
				if apps.faulty.Written != 0 {
					t.Errorf("after a crash at write %d the operator still writes", crash)
				}
			}
		})
	}
}

// written are the names of the Secrets that the operator has written, sorted. It is not asked for their label, which one that
// was begun before a crash may lack.
func (w *world) written() []string {
	w.t.Helper()
	secrets := &corev1.SecretList{}
	if err := w.person.List(w.t.Context(), secrets, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range secrets.Items {
		if owners := secrets.Items[i].OwnerReferences; len(owners) > 0 && owners[0].Kind == "KafkaAccess" {
			names = append(names, secrets.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestAPreviousSecretOfOthersIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	w.delete("my-app", &corev1.Secret{})
	w.secret("my-app", "", map[string]string{"mine": "precious"})
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" })
	w.mustReconcile()
	if diff := cmp.Diff(map[string]string{"mine": "precious"}, w.data("my-app")); diff != "" {
		t.Errorf("a Secret of others differs (-want +got):\n%s", diff)
	}
	if reason := w.reason("my-app"); reason != "Bound" {
		t.Errorf("the reason is %s", reason)
	}
}
