package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
)

// An operator that expected another policy than the chart installs would sign nothing.
func TestTheEtcdOperatorExpectsThePolicyThatTheChartInstalls(t *testing.T) {
	t.Parallel()
	objects := rendered(t, chartstest.EtcdOperator)
	told := map[string]string{}
	for _, argument := range only[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0].Args {
		flag, value, _ := strings.Cut(argument, "=")
		told[flag] = value
	}
	expected, err := attestation.Expect(attestation.Settings{
		Name: told["--attestation-policy"], OperatorUser: "system:serviceaccount:" + told["--operator-namespace"] + ":" + told["--service-account"],
	})
	if err != nil {
		t.Fatal(err)
	}
	policy, binding := only[*admissionv1.ValidatingAdmissionPolicy](t, objects), only[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects)
	if diff := cmp.Diff(expected.Policy, policy.Spec); diff != "" {
		t.Errorf("the policy differs (-expected +installed):\n%s", diff)
	}
	if diff := cmp.Diff(expected.Binding, binding.Spec); diff != "" {
		t.Errorf("the binding differs (-expected +installed):\n%s", diff)
	}
	if policy.Name != expected.Name || binding.Name != expected.Name {
		t.Errorf("they are named %s and %s, want %s", policy.Name, binding.Name, expected.Name)
	}
}

func TestTheEtcdOperatorReadsItsPolicyAndChangesNone(t *testing.T) {
	t.Parallel()
	for _, role := range all[*rbacv1.ClusterRole](rendered(t, chartstest.EtcdOperator)) {
		for _, rule := range role.Rules {
			if !slices.Contains(rule.APIGroups, admissionv1.GroupName) {
				continue
			}
			if !slices.Equal(rule.Verbs, []string{"get"}) || !slices.Equal(rule.ResourceNames, []string{"keyturn-etcd-members"}) {
				t.Errorf("it may %v the policies %v", rule.Verbs, rule.ResourceNames)
			}
		}
	}
}
