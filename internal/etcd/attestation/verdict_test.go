package attestation_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func expect(t *testing.T, namespaces ...string) attestation.Expected {
	t.Helper()
	expected, err := attestation.Expect(attestation.Settings{
		Name: "keyturn-etcd-members", OperatorUser: "system:serviceaccount:keyturn:keyturn-etcd-operator", Namespaces: namespaces,
	})
	if err != nil {
		t.Fatal(err)
	}
	return expected
}

// enforced is what the API server shows of a policy that is in force.
func enforced(t *testing.T) attestation.Seen {
	t.Helper()
	expected := expect(t)
	meta := metav1.ObjectMeta{Name: expected.Name, UID: "a", Generation: 1}
	return attestation.Seen{
		Policy:  &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: expected.Policy},
		Binding: &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: expected.Binding},
		Trial:   attestation.Refused,
	}
}

func TestAPolicyIsInForceWhenItIsWholeAndRefuses(t *testing.T) {
	t.Parallel()
	fail, ignore := admissionv1.Fail, admissionv1.Ignore
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(seen *attestation.Seen)
		want   attestation.Reason
	}{
		"as installed": {func(*attestation.Seen) {}, attestation.PolicyEnforced},
		"also audited": {func(s *attestation.Seen) {
			s.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny}
		}, attestation.PolicyEnforced},
		"no policy":                   {func(s *attestation.Seen) { s.Policy = nil }, attestation.PolicyMissing},
		"no binding":                  {func(s *attestation.Seen) { s.Binding = nil }, attestation.PolicyMissing},
		"a policy on its way out":     {func(s *attestation.Seen) { s.Policy.DeletionTimestamp = &now }, attestation.PolicyChanged},
		"a binding on its way out":    {func(s *attestation.Seen) { s.Binding.DeletionTimestamp = &now }, attestation.PolicyChanged},
		"errors are ignored":          {func(s *attestation.Seen) { s.Policy.Spec.FailurePolicy = &ignore }, attestation.PolicyChanged},
		"errors are said to be fatal": {func(s *attestation.Seen) { s.Policy.Spec.FailurePolicy = &fail }, attestation.PolicyEnforced},
		"fewer namespaces": {func(s *attestation.Seen) {
			s.Policy.Spec.MatchConstraints.NamespaceSelector.MatchLabels = map[string]string{"a": "b"}
		}, attestation.PolicyChanged},
		"fewer objects": {func(s *attestation.Seen) {
			s.Policy.Spec.MatchConstraints.ObjectSelector.MatchLabels = map[string]string{"a": "b"}
		}, attestation.PolicyChanged},
		"excluded resources": {func(s *attestation.Seen) {
			s.Policy.Spec.MatchConstraints.ExcludeResourceRules = s.Policy.Spec.MatchConstraints.ResourceRules
		}, attestation.PolicyChanged},
		"no status": {func(s *attestation.Seen) {
			s.Policy.Spec.MatchConstraints.ResourceRules = s.Policy.Spec.MatchConstraints.ResourceRules[:1]
		}, attestation.PolicyChanged},
		"another condition": {func(s *attestation.Seen) { s.Policy.Spec.MatchConditions[0].Expression = "false" }, attestation.PolicyChanged},
		"one more condition": {func(s *attestation.Seen) {
			s.Policy.Spec.MatchConditions = append(s.Policy.Spec.MatchConditions, admissionv1.MatchCondition{Name: "a", Expression: "false"})
		}, attestation.PolicyChanged},
		"another variable": {func(s *attestation.Seen) { s.Policy.Spec.Variables[0].Expression = "true" }, attestation.PolicyChanged},
		"a rule less":      {func(s *attestation.Seen) { s.Policy.Spec.Validations = s.Policy.Spec.Validations[1:] }, attestation.PolicyChanged},
		"parameters": {func(s *attestation.Seen) {
			s.Policy.Spec.ParamKind = &admissionv1.ParamKind{Kind: "ConfigMap", APIVersion: "v1"}
		}, attestation.PolicyChanged},
		"a binding that audits": {func(s *attestation.Seen) {
			s.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		}, attestation.PolicyChanged},
		"a binding with parameters":    {func(s *attestation.Seen) { s.Binding.Spec.ParamRef = &admissionv1.ParamRef{Name: "a"} }, attestation.PolicyChanged},
		"a binding for few objects":    {func(s *attestation.Seen) { s.Binding.Spec.MatchResources = &admissionv1.MatchResources{} }, attestation.PolicyChanged},
		"a binding of another policy":  {func(s *attestation.Seen) { s.Binding.Spec.PolicyName = "other" }, attestation.PolicyChanged},
		"the API server accepts":       {func(s *attestation.Seen) { s.Trial = attestation.Accepted }, attestation.PolicyNotEnforced},
		"nothing was tried":            {func(s *attestation.Seen) { s.Trial, s.Untried = attestation.NotTried, "not found" }, attestation.PolicyNotTested},
		"the API server cannot answer": {func(s *attestation.Seen) { s.Problem = "timeout" }, attestation.PolicyNotTested},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := enforced(t)
			test.change(&seen)
			verdict := expect(t).Judge(seen)
			isEnforced := test.want == attestation.PolicyEnforced
			if verdict.Reason != test.want || verdict.IsEnforced() != isEnforced || (verdict.Revision != "") != isEnforced {
				t.Errorf("got %+v, want %s", verdict, test.want)
			}
			if !strings.Contains(verdict.Message, "keyturn-etcd-members") || !isEnforced && !strings.Contains(verdict.Message, "no certificate for a new key") {
				t.Errorf("the message is %q", verdict.Message)
			}
		})
	}
}

// The API server may have no answer for a pod, which says nothing about the policy.
func TestAVerdictHoldsWithoutAnotherTrialWhileThePolicyIsTheSame(t *testing.T) {
	t.Parallel()
	audit := []admissionv1.ValidationAction{admissionv1.Audit}
	for name, test := range map[string]struct {
		change func(seen *attestation.Seen)
		want   attestation.Reason
	}{
		"the same policy":           {func(*attestation.Seen) {}, attestation.PolicyEnforced},
		"changed and changed back":  {func(s *attestation.Seen) { s.Policy.Generation++ }, attestation.PolicyNotTested},
		"deleted and created again": {func(s *attestation.Seen) { s.Binding.UID = "b" }, attestation.PolicyNotTested},
		"too old":                   {func(s *attestation.Seen) { s.Former = attestation.Verdict{} }, attestation.PolicyNotTested},
		"weakened":                  {func(s *attestation.Seen) { s.Binding.Spec.ValidationActions = audit }, attestation.PolicyChanged},
		"accepted now":              {func(s *attestation.Seen) { s.Trial = attestation.Accepted }, attestation.PolicyNotEnforced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := enforced(t)
			seen.Former = expect(t).Judge(seen)
			seen.Trial, seen.Untried = attestation.NotTried, "not found"
			test.change(&seen)
			if verdict := expect(t).Judge(seen); verdict.Reason != test.want {
				t.Errorf("got %+v, want %s", verdict, test.want)
			}
		})
	}
}

// A policy that was deleted or weakened and is whole again has left time for forged requests.
func TestEveryChangeOfThePolicyIsAnotherRevision(t *testing.T) {
	t.Parallel()
	seen := enforced(t)
	revisions := map[string]bool{expect(t).Judge(seen).Revision: true}
	for _, change := range []func(){
		func() { seen.Policy.UID = "b" }, func() { seen.Binding.UID = "b" },
		func() { seen.Policy.Generation = 3 }, func() { seen.Binding.Generation = 3 },
	} {
		change()
		revisions[expect(t).Judge(seen).Revision] = true
	}
	if len(revisions) != 5 {
		t.Errorf("five states have the revisions %v", revisions)
	}
}

func TestThePolicyIsForTheNamespacesThatAreWatched(t *testing.T) {
	t.Parallel()
	selector := expect(t, "etcd", "shop").Policy.MatchConstraints.NamespaceSelector
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || parsed.String() != "kubernetes.io/metadata.name in (etcd,shop)" {
		t.Errorf("it is for %s: %v", parsed, err)
	}
}

func TestThePolicyKnowsEveryAnnotationAndLabelOfAMember(t *testing.T) {
	t.Parallel()
	policy := expect(t).Policy
	names := []string{
		contract.RequestAnnotation, contract.CertificateAnnotation, keyturnagent.PinAnnotation, keyturnagent.PublishedAnnotation,
		contract.StartAnnotation, contract.RestartAnnotation,
		model.AttestationAnnotation, model.TrustAnnotation, model.VersionAnnotation, model.RevisionAnnotation,
		model.RoleLabel, model.ClusterLabel, model.MemberLabel, model.BackupOfLabel, model.AppLabel,
	}
	for _, plane := range contract.Planes() {
		names = append(names, plane.RequestAnnotation(), plane.CertificateAnnotation())
	}
	validations := strings.Builder{}
	for _, validation := range policy.Validations {
		validations.WriteString(validation.Expression)
	}
	for _, variable := range policy.Variables {
		validations.WriteString(variable.Expression)
	}
	for _, name := range append(names, model.ManagedByLabel) {
		if !strings.Contains(validations.String(), "'"+name+"'") {
			t.Errorf("no rule protects %s", name)
		}
	}
	for _, name := range append(names, model.ManagedByLabel, model.Manager) {
		if !strings.Contains(policy.MatchConditions[0].Expression, "'"+name+"'") {
			t.Errorf("the condition does not know %s", name)
		}
	}
}
