package apitest

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// labelsOf are those of a component, as the operator asks for them.
func labelsOf(component, name, operator string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/instance": "my-cluster", "app.kubernetes.io/managed-by": operator,
		"app.kubernetes.io/name": component, "app.kubernetes.io/part-of": "strimzi-my-cluster",
		"strimzi.io/cluster": "my-cluster", "strimzi.io/component-type": component, "strimzi.io/kind": "Kafka", "strimzi.io/name": name,
	}
}

// issuedAnnotations are those by which cert-manager tells whose Secret it fills.
func issuedAnnotations() map[string]string {
	annotations := map[string]string{}
	for _, key := range []string{"alt-names", "certificate-name", "common-name", "ip-sans", "issuer-group", "issuer-kind", "issuer-name", "subject-organizations"} {
		annotations["cert-manager.io/"+key] = kubetest.Any
	}
	annotations["cert-manager.io/uri-sans"] = ""
	return annotations
}

func TestACertificateAndItsSecretHaveTheLabelsOfTheirComponent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ certificate, component, label string }{
		"a node":                           {node, "kafka", "my-cluster-kafka"},
		"an operator":                      {"my-cluster-cluster-operator-certs", "strimzi", "strimzi"},
		"a user operator beside the nodes": {"my-cluster-entity-user-operator-certs", "entity-operator", "my-cluster-entity-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ofOperator := labelsOf(test.component, test.label, "strimzi-cluster-operator")
			w.options.Labels = ofOperator
			w.issued(w.request(test.certificate))
			w.until("cert-manager has removed the Secret in which it made the key", func() bool {
				keys := &corev1.SecretList{}
				if err := w.person.List(t.Context(), keys, client.InNamespace(w.namespace), client.HasLabels{"cert-manager.io/next-private-key"}); err != nil {
					t.Fatal(err)
				}
				return len(keys.Items) == 0
			})

			ofSecret := labelsOf(test.component, test.label, "cert-manager")
			maps.Copy(ofSecret, map[string]string{"controller.cert-manager.io/fao": "true", certmanager.OwnerLabel: kubetest.Any})
			kubetest.CheckMarks(t, apiServer, w.namespace, map[string]kubetest.Marks{
				"Issuer company":                  {},
				"Secret company":                  {},
				"ConfigMap my-cluster":            {},
				"Certificate " + test.certificate: {Labels: ofOperator},
				"CertificateRequest " + test.certificate + "-1": {Labels: ofOperator, Annotations: map[string]string{
					"cert-manager.io/certificate-name": test.certificate, "cert-manager.io/certificate-revision": "1", "cert-manager.io/private-key-secret-name": kubetest.Any,
				}},
				"Secret " + test.certificate + "-cm": {Labels: ofSecret, Annotations: issuedAnnotations()},
			})
		})
	}
}
