package binding_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

func TestTheTemplateAddsWhatIsNotTheOperators(t *testing.T) {
	t.Parallel()
	access := accessTo(func(a *accessv1alpha1.KafkaAccess) {
		a.Spec.Template = &accessv1alpha1.KafkaAccessTemplate{Secret: &accessv1alpha1.SecretTemplate{Metadata: &accessv1alpha1.MetadataTemplate{
			Labels:      map[string]string{"team": "checkout", "strimzi.io/cluster": "other", "app.kubernetes.io/managed-by": "me"},
			Annotations: map[string]string{"note": "yes", "keyturn.dev/trust": "no", "cert-manager.io/certificate-name": "my-cluster-dual-role-0"},
		}}}
	})
	secret := binding.Secret(access, "source", map[string][]byte{"type": []byte("kafka")})
	labels := map[string]string{"team": "checkout", "app.kubernetes.io/managed-by": "kafka-access-operator"}
	if diff := cmp.Diff(labels, secret.Labels); diff != "" {
		t.Errorf("labels differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "yes", "keyturn.dev/source": "source"}, secret.Annotations); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
	if owner := secret.OwnerReferences[0]; *owner.UID != "1" || *owner.Controller || *owner.BlockOwnerDeletion || *owner.Kind != "KafkaAccess" ||
		*owner.APIVersion != "access.strimzi.io/v1alpha1" || *owner.Name != "my-app" {
		t.Errorf("the owner is %+v", owner)
	}
	if *secret.Type != "servicebinding.io/kafka" || *secret.Name != "my-app" || *secret.Namespace != "kafka" {
		t.Errorf("the Secret is %s/%s of type %s", *secret.Namespace, *secret.Name, *secret.Type)
	}
}

func TestASecretIsWrittenOnlyIfItIsTheOperatorsAndTheAccesses(t *testing.T) {
	t.Parallel()
	own := metav1.ManagedFieldsEntry{Manager: "keyturn-access-operator", Operation: metav1.ManagedFieldsOperationApply}
	created := metav1.ManagedFieldsEntry{Manager: "keyturn-access-operator", Operation: metav1.ManagedFieldsOperationUpdate}
	public := metav1.ManagedFieldsEntry{Manager: "fabric8", Operation: metav1.ManagedFieldsOperationUpdate}
	label := map[string]string{"app.kubernetes.io/managed-by": "kafka-access-operator"}
	for name, test := range map[string]struct {
		labels map[string]string
		owner  string
		fields metav1.ManagedFieldsEntry
		want   binding.Reason
	}{
		"its own":                                  {labels: label, owner: "1", fields: own},
		"its own, without its label":               {owner: "1", fields: own},
		"its own, created and not applied yet":     {owner: "1", fields: created},
		"of another KafkaAccess":                   {labels: label, owner: "2", fields: own, want: binding.ForeignObject},
		"its own, without its owner":               {labels: label, fields: own, want: binding.ForeignObject},
		"a person's":                               {fields: public, want: binding.ForeignObject},
		"a person's that names the KafkaAccess":    {owner: "1", fields: public, want: binding.ForeignObject},
		"the public operator's":                    {labels: label, owner: "1", fields: public, want: binding.MadeByAnother},
		"the public operator's for something else": {labels: label, owner: "2", fields: public, want: binding.MadeByAnother},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "my-app", Labels: test.labels, ManagedFields: []metav1.ManagedFieldsEntry{test.fields}}}
			if test.owner != "" {
				secret.OwnerReferences = []metav1.OwnerReference{{UID: "0"}, {UID: types.UID(test.owner)}}
			}
			if got := problemOf(t, binding.CheckOwner(secret, accessTo(nil))); got != test.want {
				t.Errorf("the reason is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAProblemLeavesTheBindingAsItWas(t *testing.T) {
	t.Parallel()
	first, later := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	access := accessTo(nil)

	access.Status = binding.First(access, first)
	if c := binding.Ready(access); c.Status != metav1.ConditionFalse || c.Reason != "Reconciling" || access.Status.Binding != nil {
		t.Errorf("a new KafkaAccess begins with %+v", access.Status)
	}
	access.Status = binding.Status(access, binding.Outcome{Listener: "tls"}, later)
	if c := binding.Ready(access); c.Status != metav1.ConditionTrue || access.Status.Binding.Name != "my-app" || !c.LastTransitionTime.Time.Equal(later) {
		t.Errorf("a KafkaAccess with its Secret has %+v", access.Status)
	}
	again := binding.Status(access, binding.Outcome{Listener: "tls"}, later.Add(time.Hour))
	if !equality.Semantic.DeepEqual(access.Status, again) {
		t.Errorf("the same outcome later is news:\n%s", cmp.Diff(access.Status, again))
	}

	access.Spec.SecretName, access.Generation = "renamed", 4
	failed := binding.Status(access, binding.Outcome{Problem: &binding.NotReadyError{Reason: binding.ForeignObject, Problem: "W.", Remedy: "R."}}, later)
	c := meta.FindStatusCondition(failed.Conditions, "Ready")
	if failed.Binding.Name != "my-app" || failed.ObservedGeneration != 4 || c.ObservedGeneration != 0 || c.Message != "W. The Secret is not written. R." {
		t.Errorf("a problem is reported as %+v", failed)
	}
}
