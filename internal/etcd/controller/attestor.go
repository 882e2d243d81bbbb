package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/excerpt"
)

// PolicyTester is the Attestor of a process. It reads the policy, and asks the API server for a change that the policy
// forbids even to the operator, without carrying it out.
type PolicyTester struct {
	Client client.Client
	// Live reads past the cache.
	Live     client.Reader
	Expected attestation.Expected
	Clock    clock.PassiveClock
	Metrics  *Metrics

	// mu is held during a test: what waits for it takes its verdict.
	mu   sync.Mutex
	last attestation.Verdict
	at   time.Time
}

var _ Attestor = (*PolicyTester)(nil)

// Verdict is that of the last test, which is repeated when it is too old or the clock has been set back.
func (t *PolicyTester) Verdict(ctx context.Context, pod *corev1.Pod) attestation.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := testEvery
	if !t.last.IsEnforced() {
		limit = testAgain
	}
	if age := t.Clock.Since(t.at); t.last.Reason == "" || age < 0 || age >= limit {
		t.test(ctx, pod)
	}
	return t.last
}

func (t *PolicyTester) test(ctx context.Context, pod *corev1.Pod) {
	t.at = t.Clock.Now()
	seen, err := t.see(ctx, pod)
	if err != nil {
		seen.Problem = excerpt.Of(err.Error(), excerpt.Foreign)
	}
	t.last = t.Expected.Judge(seen)
	t.Metrics.tested(t.last)
}

func (t *PolicyTester) see(ctx context.Context, pod *corev1.Pod) (attestation.Seen, error) {
	seen := attestation.Seen{}
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	name := types.NamespacedName{Name: t.Expected.Name}
	switch err := t.Live.Get(ctx, name, policy); {
	case apierrors.IsNotFound(err):
		return seen, nil
	case err != nil:
		return seen, fmt.Errorf("reading ValidatingAdmissionPolicy %s: %w", name.Name, err)
	}
	seen.Policy = policy
	switch err := t.Live.Get(ctx, name, binding); {
	case apierrors.IsNotFound(err):
		return seen, nil
	case err != nil:
		return seen, fmt.Errorf("reading ValidatingAdmissionPolicyBinding %s: %w", name.Name, err)
	}
	seen.Binding = binding
	var err error
	seen.Trial, err = t.try(ctx, pod)
	return seen, err
}

// try asks for a request of the operator's in the pod of a member. The policy refuses that as it refuses everybody's.
func (t *PolicyTester) try(ctx context.Context, pod *corev1.Pod) (attestation.Trial, error) {
	patch := fmt.Appendf(nil, `{"metadata": {"uid": %q, "annotations": {%q: "test"}}}`, pod.UID, contract.RequestAnnotation)
	err := t.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return attestation.Accepted, nil
	case apierrors.IsForbidden(err):
		return attestation.Refused, nil
	default:
		return attestation.NotTried, fmt.Errorf("trying to change pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}
