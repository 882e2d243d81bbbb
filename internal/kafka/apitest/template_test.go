package apitest

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// What a template adds to the Secret with the certificate of the cluster CA.

// template adds labels and annotations to that Secret; nil removes one.
func (w *world) template(labels, annotations map[string]any) {
	w.t.Helper()
	w.patchKafka(map[string]any{"template": map[string]any{"clusterCaCert": map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": annotations},
	}}})
}

func TestARequestInATemplateOfARunningClusterIsReportedAndNeverMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.caCertificate(authorities.Cluster)

	w.template(
		map[string]any{"team": "orders", "strimzi.io/team": "orders"},
		map[string]any{"note": "kept", authorities.ForceRenewAnnotation: asked, "keyturn.dev/note": "x"},
	)
	w.run(20)

	w.wantReason(condition.NotReady, "InvalidResourceException", authorities.ForceRenewAnnotation, "keyturn.dev/note", "strimzi.io/team")
	if after := w.caCertificate(authorities.Cluster); !after.Equal(before) {
		t.Error("the CA was renewed by a request in the template")
	}
	w.wantTemplated([]string{"team"}, []string{"note"}, []string{"strimzi.io/team"}, []string{authorities.ForceRenewAnnotation, "keyturn.dev/note"})
	w.settle()
}

func TestWhatATemplateHasWrittenOfTheOperatorsKeysLeavesTheSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	w.template(map[string]any{"strimzi.io/team": "orders"}, map[string]any{authorities.ForceRenewAnnotation: asked})
	w.patch(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{"strimzi.io/team": "orders"},
		"annotations": map[string]any{
			authorities.ForceRenewAnnotation: asked,
			authority.TemplateAnnotation:     `{"labels":["strimzi.io/team"],"annotations":["` + authorities.ForceRenewAnnotation + `"]}`,
		},
	}})
	w.settle()
	served := w.caCertificate(authorities.Cluster)
	w.run(20)

	if after := w.caCertificate(authorities.Cluster); !after.Equal(served) {
		t.Error("the CA was renewed again and again")
	}
	w.wantTemplated(nil, nil, []string{"strimzi.io/team"}, []string{authorities.ForceRenewAnnotation, authority.TemplateAnnotation})

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"kafka": map[string]any{"template": nil}}})
	w.settle()
	if !has(w.getKafka(), condition.Ready) {
		t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
	}
}

// wantTemplated checks which labels and annotations the Secret has, and which not.
func (w *world) wantTemplated(labels, annotations, noLabels, noAnnotations []string) {
	w.t.Helper()
	secret := w.secret("my-cluster-ca-cert")
	for _, c := range []struct {
		has        map[string]string
		want, gone []string
	}{{secret.Labels, labels, noLabels}, {secret.Annotations, annotations, noAnnotations}} {
		there := func(key string) bool { _, is := c.has[key]; return is }
		lacks := func(key string) bool { return !there(key) }
		if slices.ContainsFunc(c.want, lacks) || slices.ContainsFunc(c.gone, there) {
			w.t.Errorf("Secret my-cluster-ca-cert has %v, want %v and none of %v", c.has, c.want, c.gone)
		}
	}
}
