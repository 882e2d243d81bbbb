package controller

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rollout"
	"github.com/keyturn/keyturn/internal/trust"
)

// Actions of events: what was done, as events.k8s.io wants it.
const (
	// actionRestart is Strimzi's; dashboards select by it.
	actionRestart   = "StrimziInitiatedPodRestart"
	actionRemove    = "RemoveNode"
	actionAuthority = "ManageAuthority"
	actionIssue     = "IssueCertificate"
	actionTrust     = "MoveTrust"
)

// maxNote is the longest note of an event.
const maxNote = 1000

// announcer tells people, by events on the Kafka, what has happened.
type announcer struct {
	recorder events.EventRecorder
}

// podDisrupted announces a restart once per reason, as Strimzi does.
func (a announcer) podDisrupted(kafka *kafkav1.Kafka, pod *corev1.Pod, act *rollout.Act) {
	if act.Kind == rollout.Remove {
		a.tell(kafka, pod, "NodeRemoved", actionRemove, "Removing node %d with pod %s", act.Node, pod.Name)
		return
	}
	for _, reason := range act.Reasons {
		a.tell(kafka, pod, string(reason.Code), actionRestart, "Rolling Pod %s due to %s: %s", pod.Name, reason.Code, reason.Note)
	}
}

// authorityChanged announces a new, renewed or removed CA certificate.
func (a announcer) authorityChanged(kafka *kafkav1.Kafka, kind authority.Kind, t authority.Transition) {
	a.tell(kafka, nil, string(t.Kind), actionAuthority, "%s: certificate %s: %s", kind, t.Certificate, t.Why)
}

// trustChanged announces each step that a decision begins to take, once until it is
// done: one that cannot be written is decided again in each pass. Nodes that load what
// they were given are followed by conditions.
func (r *Reconciler) trustChanged(kafka *kafkav1.Kafka, kind authority.Kind, d *domain) {
	taken := slices.DeleteFunc(trust.Steps(d.snapshot, d.plan), func(s trust.Step) bool { return s.Kind == trust.Loading })
	for _, step := range r.steps.begun(kafka.UID, kind, taken) {
		r.events.tell(kafka, nil, "Trust"+string(step.Kind), actionTrust, "%s: %s", kind, d.sentence(step))
	}
}

// steps remembers, of each authority of a Kafka, the steps that the last pass took.
type steps struct {
	mu    sync.Mutex
	taken map[types.UID]map[authority.Kind][]trust.Step
}

func newSteps() *steps { return &steps{taken: map[types.UID]map[authority.Kind][]trust.Step{}} }

// begun are the steps that the pass before did not take.
func (s *steps) begun(kafka types.UID, kind authority.Kind, taken []trust.Step) []trust.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.taken[kafka][kind]
	if s.taken[kafka] == nil {
		s.taken[kafka] = map[authority.Kind][]trust.Step{}
	}
	s.taken[kafka][kind] = taken
	return slices.DeleteFunc(slices.Clone(taken), func(step trust.Step) bool {
		return slices.ContainsFunc(before, func(old trust.Step) bool {
			return old.Kind == step.Kind && old.Anchor == step.Anchor && old.State == step.State && slices.Equal(old.Planes, step.Planes)
		})
	})
}

// forget drops a Kafka that is gone.
func (s *steps) forget(kafka types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, kafka)
}

// sentence says a step in words.
func (d *domain) sentence(step trust.Step) string {
	name := string(step.Anchor)
	if cert, found := d.certificate(step.Anchor); found {
		name = fmt.Sprintf("%q (%s)", cert.Subject.CommonName, pki.SHA1Name(cert))
	}
	words := map[trust.StepKind]string{
		trust.Store:        "anchor %s is now " + cmp.Or(string(step.State), "removed"),
		trust.Announce:     "applications are given anchor %s",
		trust.Lead:         "the application bundle begins with anchor %s",
		trust.Distribute:   "nodes are told to trust anchor %s",
		trust.SwitchLeaves: "certificates are signed by anchor %s; strategy " + string(d.plan.Strategy.Kind) + ": " + d.plan.Strategy.Reason,
		trust.TurnOperator: "the operator presents a certificate of anchor %s",
		trust.TakeOffCross: "the cross certificate by anchor %s is not presented any more",
		trust.Withdraw:     "nodes are told to stop trusting anchor %s",
		trust.Retire:       "applications are no longer given anchor %s",
	}
	return fmt.Sprintf(words[step.Kind], name)
}

// leafIssued announces a certificate that replaces another one; the first ones
// of a cluster are no news.
func (a announcer) leafIssued(kafka *kafkav1.Kafka, secret string, decision authority.LeafDecision) {
	if decision.Reason == authority.LeafMissing {
		return
	}
	a.tell(kafka, nil, "CertificateIssued", actionIssue, "Certificate of Secret %s issued anew (%s): %s", secret, decision.Reason, decision.Detail)
}

// conditionChanged announces a condition that was not there before.
func (a announcer) conditionChanged(kafka *kafkav1.Kafka, reason, message string) {
	a.recorder.Eventf(kafka, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", shortened(message))
}

func (a announcer) tell(kafka *kafkav1.Kafka, related *corev1.Pod, reason, action, format string, args ...any) {
	var other runtime.Object
	if related != nil {
		other = related
	}
	a.recorder.Eventf(kafka, other, corev1.EventTypeNormal, reason, action, "%s", shortened(fmt.Sprintf(format, args...)))
}

func shortened(note string) string { return excerpt.Of(note, maxNote) }
