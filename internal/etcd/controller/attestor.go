package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

const (
	// holds is how long a verdict holds while the API server answers for no pod.
	holds = 5 * time.Minute
	// maxTrials is with how many pods it is asked in one test.
	maxTrials = 5
)

// Verdict is that of the last test, which is repeated when it is too old or the clock has been set back. A test that is
// not conclusive does not count: the next cluster repeats it with its own pods.
func (t *PolicyTester) Verdict(ctx context.Context, pods ...*corev1.Pod) attestation.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := testEvery
	if !t.last.IsEnforced() {
		limit = testAgain
	}
	age := t.Clock.Since(t.at)
	if t.last.Reason != "" && age >= 0 && age < limit {
		return t.last
	}
	verdict, isConclusive := t.test(ctx, pods)
	t.Metrics.tested(verdict)
	if isConclusive {
		t.last, t.at = verdict, t.Clock.Now()
	}
	return verdict
}

func (t *PolicyTester) test(ctx context.Context, pods []*corev1.Pod) (attestation.Verdict, bool) {
	seen, err := t.see(ctx)
	if err != nil {
		seen.Problem = excerpt.Of(err.Error(), excerpt.Foreign)
		return t.Expected.Judge(seen), true
	}
	if seen.Policy == nil || seen.Binding == nil {
		return t.Expected.Judge(seen), true
	}
	if age := t.Clock.Since(t.at); age >= 0 && age < holds {
		seen.Former = t.last
	}
	for _, pod := range pods[:min(len(pods), maxTrials)] {
		if seen.Trial, err = t.try(ctx, pod); err == nil {
			return t.Expected.Judge(seen), true
		}
	}
	if err != nil {
		seen.Untried = excerpt.Of(err.Error(), excerpt.Foreign)
	}
	return t.Expected.Judge(seen), false
}

// see reads the policy and its binding.
func (t *PolicyTester) see(ctx context.Context) (attestation.Seen, error) {
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
	return seen, nil
}

// try asks for a request of the operator's in the pod of a member. The policy denies that to the operator
// as to every client. All other annotations are left out: with them, those of the pod may be too long to
// be checked.
func (t *PolicyTester) try(ctx context.Context, pod *corev1.Pod) (attestation.Trial, error) {
	patch := fmt.Appendf(nil, `[{"op": "test", "path": "/metadata/uid", "value": %q}, {"op": "add", "path": "/metadata/annotations", "value": {%q: "test"}}]`,
		pod.UID, contract.RequestAnnotation)
	err := t.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.DryRunAll, client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return attestation.Accepted, nil
	case t.hasRefused(err):
		return attestation.Refused, nil
	default:
		return attestation.NotTried, fmt.Errorf("trying to change pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}

// hasRefused reports whether the policy has, and not the authorizer or a webhook. The API server names the policy in the
// cause of its answer and nowhere else.
func (t *PolicyTester) hasRefused(err error) bool {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !apierrors.IsForbidden(err) || status.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.HasPrefix(cause.Message, "ValidatingAdmissionPolicy '"+t.Expected.Name+"'")
	})
}
