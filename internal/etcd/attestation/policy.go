package attestation

import (
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/charts"
)

// Settings say how the policy is installed.
type Settings struct {
	// Name of the policy and of its binding.
	Name string
	// OperatorUser is the name by which the API server knows the operator.
	OperatorUser string
	// Namespaces that the operator watches; none means all.
	Namespaces []string
}

// Expected is the policy as the chart installs it.
type Expected struct {
	Name    string
	Policy  admissionv1.ValidatingAdmissionPolicySpec
	Binding admissionv1.ValidatingAdmissionPolicyBindingSpec
}

// Expect returns the policy that an operator of this version needs.
func Expect(settings Settings) (Expected, error) {
	selector := metav1.LabelSelector{}
	if len(settings.Namespaces) > 0 {
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: settings.Namespaces,
		}}
	}
	namespaces, err := json.Marshal(selector)
	if err != nil {
		return Expected{}, fmt.Errorf("encoding a selector of namespaces: %w", err)
	}
	text := strings.NewReplacer("OPERATOR", settings.OperatorUser, "NAMESPACES", string(namespaces), "POLICY", settings.Name).
		Replace(charts.EtcdAttestation)
	expected := Expected{}
	if err := yaml.UnmarshalStrict([]byte(text), &expected); err != nil {
		return Expected{}, fmt.Errorf("reading the admission policy for pods of etcd members: %w", err)
	}
	expected.Name = settings.Name
	return expected, nil
}
