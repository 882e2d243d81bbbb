package apitest

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// attested is an API server that enforces the admission policy.
type attested struct{}

func (attested) Verdict(context.Context, ...*corev1.Pod) attestation.Verdict {
	return attestation.Verdict{Reason: attestation.PolicyEnforced, Message: "The API server enforces the policy.", Revision: "1"}
}

// newAttested is a world in which the policy of the chart is in force, with an operator that tests it. Kubelet, agents
// and operator are who they are in a Kubernetes cluster.
func newAttested(t *testing.T, spec etcdv1beta2.EtcdClusterSpec) (*world, *guarded) {
	t.Helper()
	g := newGuarded(t)
	w := newWorldIn(t, g.namespace, kubetest.Namespace(t, g.person, "operator-"), g.operator(), spec)
	w.kubelet = g.kubelet()
	w.ofPod = func(pod *corev1.Pod) client.Client { return connect(t, asPod(pod)) }
	w.attestor = &controller.PolicyTester{
		Client: w.asOperator, Live: w.asOperator, Expected: g.expected(), Clock: w.clock, Metrics: controller.NewMetrics(),
	}
	w.restart()
	return w, g
}

// later lets the time pass after which the policy is tested again.
func (w *world) later() { w.clock.SetTime(w.clock.Now().Add(time.Minute)) }

// untilAttested reconciles, and lets time pass, until the condition about attestation has a reason.
func (w *world) untilAttested(reason attestation.Reason) metav1.Condition {
	w.t.Helper()
	condition := metav1.Condition{}
	for range 40 {
		w.later()
		w.reconcile()
		w.play()
		if condition = w.condition(etcdv1beta2.ConditionAttestationEnforced); condition.Reason == string(reason) {
			return condition
		}
	}
	w.t.Fatalf("the reason does not become %s: %+v", reason, condition)
	return condition
}

func TestMembersEnrolUnderThePolicy(t *testing.T) {
	t.Parallel()
	w, _ := newAttested(t, of(3))
	w.bring()
	if condition := w.condition(etcdv1beta2.ConditionAttestationEnforced); condition.Status != metav1.ConditionTrue || condition.Reason != "PolicyEnforced" {
		t.Errorf("the condition is %+v", condition)
	}
	if !w.told("PolicyEnforced") {
		t.Error("no event says that the policy is in force")
	}
	w.atRest()
	w.later()
	w.atRest()
}

func TestNothingIsSignedWhileThePolicyIsGoneOrWeak(t *testing.T) {
	t.Parallel()
	audit, ignore := []admissionv1.ValidationAction{admissionv1.Audit}, admissionv1.Ignore
	for name, test := range map[string]struct {
		weaken func(policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding)
		want   attestation.Reason
	}{
		"no policy": {nil, attestation.PolicyMissing},
		"it audits": {func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = audit
		}, attestation.PolicyChanged},
		"parameters": {func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}, attestation.PolicyChanged},
		"no errors": {func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.FailurePolicy = &ignore
		}, attestation.PolicyChanged},
		"elsewhere": {func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.MatchConstraints.NamespaceSelector.MatchLabels = map[string]string{"a": "b"}
		}, attestation.PolicyChanged},
		"no objects": {func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.MatchConditions[0].Expression = "false"
		}, attestation.PolicyChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, g := newAttested(t, of(1))
			w.bring()
			before := w.pod(first).Annotations
			if test.weaken == nil {
				g.remove()
			} else {
				policy, binding := g.stored()
				test.weaken(policy, binding)
				for _, object := range []client.Object{policy, binding} {
					if err := g.person.Update(t.Context(), object); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.setAddress(w.pod(first), "10.0.7.7") // its certificate is due
			w.later()
			w.told("")
			w.reconcile()
			condition := w.condition(etcdv1beta2.ConditionAttestationEnforced)
			if condition.Status != metav1.ConditionFalse || condition.Reason != string(test.want) || !w.told(string(test.want)) {
				t.Errorf("the condition is %+v, want %s and an event", condition, test.want)
			}
			w.restart() // another operator does not sign either
			w.reconcile()
			if after := w.pod(first).Annotations; after[contract.PeerPlane.CertificateAnnotation()] != before[contract.PeerPlane.CertificateAnnotation()] {
				t.Error("the certificate in use has changed")
			}
			if available := w.condition(etcdv1beta2.ConditionAvailable); available.Status != metav1.ConditionTrue {
				t.Errorf("the cluster does not serve: %+v", available)
			}
			w.atRest()
			if test.weaken == nil {
				g.install()
			} else {
				g.mend()
			}
			w.untilAttested(attestation.PolicyEnforced)
			if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
				t.Error("with the policy in force again, the certificate is not issued")
			}
			w.atRest()
		})
	}
}

// mend gives policy and binding the specs that they were installed with.
func (g *guarded) mend() {
	g.t.Helper()
	policy, binding := g.stored()
	policy.Spec, binding.Spec = g.expected().Policy, g.expected().Binding
	for _, object := range []client.Object{policy, binding} {
		if err := g.person.Update(g.t.Context(), object); err != nil {
			g.t.Fatal(err)
		}
	}
	g.eventually("the policy is in force", g.isInForce)
}

// The policy is whole when the operator looks, and has not been all the time.
func TestARequestThatWasForgedWithoutThePolicyIsNeverSigned(t *testing.T) {
	t.Parallel()
	for name, operatorSees := range map[string]bool{"the operator has seen it": true, "the operator has not seen it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, g := newAttested(t, of(2))
			w.bring()
			g.remove()
			if operatorSees {
				w.untilAttested(attestation.PolicyMissing)
			}
			key := contract.PeerPlane.RequestAnnotation()
			neighbour := w.pod("my-cluster-1")
			w.annotate(first, key, w.newRequest())
			g.install()
			w.told("")
			w.later()
			w.reconcile()
			if w.told("CertificateIssued") {
				t.Error("the forged request is signed")
			}
			if left := w.pod(first).Annotations[key]; left != "" {
				t.Error("the forged request is left in the pod")
			}
			if w.pod("my-cluster-1").Annotations[key] != neighbour.Annotations[key] {
				t.Error("a request for a key that was signed before is removed")
			}
			w.play() // its agent asks again
			w.setAddress(w.pod(first), "10.0.7.7")
			w.reconcile()
			if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; !w.agentOf(first).keys[contract.PeerPlane].Matches(leaf) || leaf.VerifyHostname("10.0.7.7") != nil {
				t.Error("the request that the agent has sent again is not signed")
			}
			w.atRest()
		})
	}
}

func TestAClusterThatAsksForNoAttestationNeedsNoPolicy(t *testing.T) {
	t.Parallel()
	w, g := newAttested(t, sharing(1))
	g.remove()
	w.bring()
	if condition := w.condition(etcdv1beta2.ConditionAttestationEnforced); condition.Type != "" {
		t.Errorf("it has the condition %+v", condition)
	}
	w.change(`{"spec": {"TLS": {"dynamic": {"attestation": "Policy"}}}}`)
	message := w.untilAttested(attestation.PolicyMissing).Message
	if !strings.Contains(message, g.settings.Name) || !strings.Contains(message, "etcd.attestationPolicy.create=true") {
		t.Errorf("the message is %q", message)
	}
	w.setAddress(w.pod(first), "10.0.7.7")
	w.reconcile()
	if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") == nil {
		t.Error("a certificate is issued without the policy")
	}
	g.install()
	w.untilAttested(attestation.PolicyEnforced)
	w.change(`{"spec": {"TLS": {"dynamic": {"attestation": "Annotation"}}}}`)
	w.reconcile()
	if condition := w.condition(etcdv1beta2.ConditionAttestationEnforced); condition.Type != "" {
		t.Errorf("it keeps the condition %+v", condition)
	}
}

func TestTheFirstMemberWaitsForThePolicy(t *testing.T) {
	t.Parallel()
	w, g := newAttested(t, of(1))
	g.remove()
	w.untilAttested(attestation.PolicyMissing)
	if pod := w.pod(first); pod.Annotations[contract.PeerPlane.RequestAnnotation()] == "" || w.chain(pod, contract.PeerPlane) != nil {
		t.Error("the pod has not asked, or has a certificate")
	}
	w.atRest()
	g.install()
	w.untilAttested(attestation.PolicyEnforced)
	w.bring()
}

// The verdict is for all clusters, and each may have a pod with which the API server cannot try the policy.
func TestAPodThatThePolicyCannotBeTriedWithStopsNoOtherCluster(t *testing.T) {
	t.Parallel()
	t.Run("its annotations leave no room", func(t *testing.T) {
		t.Parallel()
		w, _ := newAttested(t, of(1))
		w.bring()
		pod := w.pod(first)
		const limit = 256 << 10 // of all annotations together
		w.annotate(first, "example.com/full", strings.Repeat("x", limit-sizeOf(pod.Annotations)-len("example.com/full")))
		w.later()
		if verdict := w.attestor.Verdict(t.Context(), w.pod(first)); !verdict.IsEnforced() {
			t.Errorf("the verdict is %+v", verdict)
		}
	})
	t.Run("it is replaced", func(t *testing.T) {
		t.Parallel()
		w, g := newAttested(t, of(2))
		w.bring()
		replaced, other := w.pod(first), w.pod(second)
		w.delete(replaced.DeepCopy())
		w.later()
		for what, pods := range map[string][]*corev1.Pod{"alone": {replaced}, "with another": {replaced, other}} {
			if verdict := w.attestor.Verdict(t.Context(), pods...); !verdict.IsEnforced() {
				t.Errorf("%s: the verdict is %+v", what, verdict)
			}
		}
		w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
		if verdict := w.attestor.Verdict(t.Context(), replaced); verdict.Reason != attestation.PolicyNotTested {
			t.Errorf("five minutes after the last conclusive test, the verdict is %+v", verdict)
		}
		if verdict := w.attestor.Verdict(t.Context(), other); !verdict.IsEnforced() {
			t.Errorf("a test that was not conclusive counts for another pod: %+v", verdict)
		}
		g.remove()
		w.later()
		if verdict := w.attestor.Verdict(t.Context(), replaced); verdict.Reason != attestation.PolicyMissing {
			t.Errorf("without the policy, the verdict is %+v", verdict)
		}
	})
}

func sizeOf(annotations map[string]string) int {
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}

func TestRenewalsGoOnWhileThePolicyIsGone(t *testing.T) {
	t.Parallel()
	w, g := newAttested(t, of(1))
	w.bring()
	before := w.chain(w.pod(first), contract.PeerPlane)[0]
	g.remove()
	w.setAddress(w.pod(first), "10.0.7.7") // which nothing attests
	w.clock.SetTime(noon().Add(481 * time.Hour))
	w.restart() // what is known of the pod is not in the memory of a process
	w.reconcile()
	if condition := w.condition(etcdv1beta2.ConditionAttestationEnforced); condition.Reason != "PolicyMissing" {
		t.Fatalf("the condition is %+v", condition)
	}
	after := w.chain(w.pod(first), contract.PeerPlane)[0]
	if after.Equal(before) || pki.KeyIDOf(after) != pki.KeyIDOf(before) || !pki.SANsOf(after).Equal(pki.SANsOf(before)) {
		t.Errorf("the certificate until %s for %v follows one until %s for %v", after.NotAfter, pki.SANsOf(after), before.NotAfter, pki.SANsOf(before))
	}
	w.atRest()
	forged := (&agent{keys: map[contract.Plane]pki.PrivateKey{contract.PeerPlane: newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})}}).request(t, contract.PeerPlane)
	if err := g.person.Patch(t.Context(), w.pod(first), annotating(contract.PeerPlane.RequestAnnotation(), forged)); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; !leaf.Equal(after) {
		t.Error("another key gets a certificate")
	}
	g.install()
	w.untilAttested(attestation.PolicyEnforced)
	w.bring()
	if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
		t.Error("the address is not in the certificate when the policy is in force")
	}
}
