package attestation

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason is why requests may be signed, or may not, as a condition has it.
type Reason string

// The reasons. Requests are signed for the first one alone.
const (
	PolicyEnforced    Reason = "PolicyEnforced"
	PolicyMissing     Reason = "PolicyMissing"
	PolicyChanged     Reason = "PolicyChanged"
	PolicyNotEnforced Reason = "PolicyNotEnforced"
	PolicyNotTested   Reason = "PolicyNotTested"
)

// Trial is what became of a change that the policy must refuse, which the API server was asked to check and not to
// carry out.
type Trial int

// The trials.
const (
	NotTried Trial = iota
	Refused
	Accepted
)

// Seen is what the API server shows of the policy.
type Seen struct {
	// Policy and Binding are nil when there is none.
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
	Trial   Trial
	// Problem says why policy or binding are not known, and Untried why the trial is not; empty when they are.
	Problem, Untried string
	// Former is a verdict that still holds while there is no trial.
	Former Verdict
}

// Verdict says whether the policy is in force.
type Verdict struct {
	Reason  Reason
	Message string
	// Revision changes with every change of the policy and of its binding. It is empty unless the policy is in force.
	Revision string
}

// IsEnforced reports whether requests may be signed.
func (v Verdict) IsEnforced() bool { return v.Reason == PolicyEnforced }

// consequence is what all verdicts but one have in common.
const consequence = "Members get no certificate for a new key or a new address; those that they have are renewed. "

// Judge says whether the policy is in force.
func (e Expected) Judge(seen Seen) Verdict {
	install := fmt.Sprintf("Install the chart of this version with etcd.attestationPolicy.create=true, which creates the policy and its binding %s.", e.Name)
	switch {
	case seen.Problem != "":
		return e.notTested(seen.Problem)
	case seen.Policy == nil:
		return Verdict{Reason: PolicyMissing, Message: fmt.Sprintf("ValidatingAdmissionPolicy %s does not exist. %s%s", e.Name, consequence, install)}
	case seen.Binding == nil:
		return Verdict{Reason: PolicyMissing, Message: fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not exist. %s%s", e.Name, consequence, install)}
	case !e.isIntact(seen.Policy):
		return Verdict{Reason: PolicyChanged, Message: fmt.Sprintf("ValidatingAdmissionPolicy %s is not the one of this version of the operator. %s%s", e.Name, consequence, install)}
	case !e.binds(seen.Binding):
		return Verdict{Reason: PolicyChanged, Message: fmt.Sprintf("ValidatingAdmissionPolicyBinding %s limits the policy or does not deny. %s%s", e.Name, consequence, install)}
	case seen.Trial == NotTried && seen.Former.Revision == revisions(seen):
		return seen.Former
	case seen.Trial == NotTried:
		return e.notTested(seen.Untried)
	case seen.Trial == Accepted:
		return Verdict{Reason: PolicyNotEnforced, Message: fmt.Sprintf(
			"The API server has accepted a change of a pod that the policy %s forbids. %sEnable the admission plugin ValidatingAdmissionPolicy in all API servers.", e.Name, consequence)}
	default:
		return Verdict{
			Reason: PolicyEnforced, Message: fmt.Sprintf("The API server enforces the policy %s: only a member's pod can change its requests for certificates.", e.Name),
			Revision: revisions(seen),
		}
	}
}

func (e Expected) notTested(problem string) Verdict {
	return Verdict{Reason: PolicyNotTested, Message: fmt.Sprintf(
		"The admission policy %s cannot be tested: %s. %sThe test is repeated. Correct the cause if that lasts.", e.Name, problem, consequence)}
}

func (e Expected) isIntact(policy *admissionv1.ValidatingAdmissionPolicy) bool {
	return policy.DeletionTimestamp.IsZero() && equality.Semantic.DeepEqual(policy.Spec, e.Policy)
}

// binds reports whether a binding denies what the policy refuses, everywhere. It may do more.
func (e Expected) binds(binding *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	spec := binding.Spec
	return binding.DeletionTimestamp.IsZero() && spec.PolicyName == e.Binding.PolicyName && spec.ParamRef == nil && spec.MatchResources == nil &&
		slices.Contains(spec.ValidationActions, admissionv1.Deny)
}

func revisions(seen Seen) string { return revision(seen.Policy) + "," + revision(seen.Binding) }

// revision is that of an object: deleting and creating it changes its UID, and changing its spec its generation.
func revision(object metav1.Object) string {
	return fmt.Sprintf("%s/%d", object.GetUID(), object.GetGeneration())
}
