package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
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

// announcer reports by events on the Kafka what has happened. Event collectors take events of
// one reason about one object for repetitions of the first, even if their notes differ.
// Events about different things therefore name different related objects.
type announcer struct {
	recorder events.EventRecorder
	journal  journal
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
func (a announcer) authorityChanged(kafka *kafkav1.Kafka, kind authorities.Kind, t authority.Transition) {
	secret := secretPart(kafka, kind.CertSecret(kafka.Name), t.Certificate.String())
	a.tell(kafka, secret, string(t.Kind), actionAuthority, "%s: certificate %s: %s", kind, t.Certificate.Short(), t.Why)
}

// keysDeleted announces that the keys of a CA are gone in whose place an issuer has come.
func (a announcer) keysDeleted(kafka *kafkav1.Kafka, kind authorities.Kind) {
	name := kind.KeySecret(kafka.Name)
	a.tell(kafka, secretPart(kafka, name, ""), "CaKeyDeleted", actionAuthority,
		"%s: Secret %s was deleted, because certificates come from an issuer now and nothing depends on its keys", kind, name)
}

// secretPart refers to a part of a Secret of the Kafka; to all of it when part is empty.
func secretPart(kafka *kafkav1.Kafka, name, part string) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: kafka.Namespace, Name: name}
	if part != "" {
		ref.FieldPath = "data{" + part + "}"
	}
	return ref
}

// concern refers to what a condition is about; nil when that is all of the Kafka itself,
// or nothing. A part of what has no name is one of the Kafka.
func concern(kafka *kafkav1.Kafka, what object) runtime.Object {
	kind, name, _ := strings.Cut(cmp.Or(what.name, kafkav1.KindKafka+" "+kafka.Name), " ")
	version := "v1"
	switch kind {
	case "Secret", "ConfigMap", "Pod", "PersistentVolumeClaim":
	case podSetKind:
		version = podsetv1.GroupVersion.String()
	case kafkav1.KindKafkaNodePool:
		version = kafkav1.GroupVersion.String()
	case kafkav1.KindKafka:
		if what.part == "" {
			return nil
		}
		version = kafkav1.GroupVersion.String()
	default:
		return nil
	}
	if _, after, qualified := strings.Cut(name, "/"); qualified {
		name = after
	}
	return &corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: kafka.Namespace, Name: name, FieldPath: what.part}
}

// trustChanged announces each step that a decision begins to take, once until it is
// done: one that cannot be written is decided again in each reconcile. Nodes that load what
// they were given are followed by conditions.
func (r *Reconciler) trustChanged(kafka *kafkav1.Kafka, m *memory, kind authorities.Kind, d *domain) {
	taken := slices.DeleteFunc(trust.Steps(d.Snapshot, d.Plan), func(s trust.Step) bool { return s.Kind == trust.Loading })
	for _, step := range m.begun(kind, taken) {
		r.events.trustMoved(kafka, kind, step, d.sentence(step))
	}
}

// trustMoved announces a step of a rotation.
func (a announcer) trustMoved(kafka *kafkav1.Kafka, kind authorities.Kind, step trust.Step, sentence string) {
	secret := secretPart(kafka, kind.TrustedCertsSecret(kafka.Name), stepPart(step))
	a.tell(kafka, secret, "Trust"+string(step.Kind), actionTrust, "%s: %s", kind, sentence)
}

// stepPart tells apart the steps of one kind: each anchor goes through several states,
// and leaves one bundle after the other.
func stepPart(step trust.Step) string {
	parts := []string{string(step.Anchor)}
	if step.State != "" {
		parts = append(parts, string(step.State))
	}
	if step.Kind == trust.Withdraw {
		parts = append(parts, strconv.Itoa(int(step.Bundle)))
	}
	return strings.Join(parts, ",")
}

// sentence says a step in words.
func (d *domain) sentence(step trust.Step) string {
	name := rotation.Label(step.Anchor, d.Names())
	words := map[trust.StepKind]string{
		trust.Store:        "CA %s is now " + string(step.State) + " in the trusted-certs Secret",
		trust.Announce:     "CA %s was added to ca.crt for applications",
		trust.Lead:         "ca.crt now begins with CA %s",
		trust.Distribute:   "nodes are told to trust CA %s",
		trust.SwitchLeaves: "node certificates are now issued by CA %s; strategy " + string(d.Plan.Strategy.Kind) + ": " + d.Plan.Strategy.Reason,
		trust.TurnOperator: "the operator now presents a certificate of CA %s",
		trust.TakeOffCross: "nodes stop presenting the cross certificate issued by CA %s",
		trust.Withdraw:     "nodes are told to stop trusting CA %s on " + authorities.Words().Listeners(step.Bundle),
		trust.Retire:       "CA %s was removed from ca.crt for applications",
	}
	if step.Kind == trust.Store && step.State == trust.Absent {
		return fmt.Sprintf("CA %s was removed from the trusted-certs Secret", name)
	}
	return fmt.Sprintf(words[step.Kind], name)
}

// leafIssued announces a certificate that replaces another one; the first ones
// of a cluster are no news.
func (a announcer) leafIssued(kafka *kafkav1.Kafka, secret string, decision authority.LeafDecision) {
	if decision.Reason == authority.LeafMissing {
		return
	}
	a.tell(kafka, secretPart(kafka, secret, ""), "CertificateIssued", actionIssue,
		"Secret %s: a new certificate was issued (%s): %s", secret, decision.Reason, decision.Detail)
}

// listenersChanged announces that a node was given another certificate of a user's for a
// listener; the first one of a listener is no news.
func (a announcer) listenersChanged(kafka *kafkav1.Kafka, node string, before map[string][]byte, given map[publication.Role]listenercert.Checked) {
	for _, listener := range slices.Sorted(maps.Keys(given)) {
		entry := string(listener) + ".crt"
		old, err := pki.ParseBundle(before[entry])
		leaf := given[listener].Chain[0]
		if err != nil || old[0].Equal(leaf) {
			continue
		}
		a.tell(kafka, secretPart(kafka, node, entry), "ListenerCertificateReplaced", actionIssue,
			"Secret %s: listener %s was given its new certificate %q, valid until %s; the one before was valid until %s", node, listener,
			leaf.Subject, leaf.NotAfter.UTC().Format(time.RFC3339), old[0].NotAfter.UTC().Format(time.RFC3339))
	}
}

// conditionChanged announces a condition that was not there before, and the object that
// it is about. The log has a line of its own for the condition.
func (a announcer) conditionChanged(kafka *kafkav1.Kafka, what object, reason, message string) {
	a.recorder.Eventf(kafka, concern(kafka, what), corev1.EventTypeWarning, reason, "Reconcile", "%s", shortened(message))
}

func (a announcer) tell(kafka *kafkav1.Kafka, related runtime.Object, reason, action, format string, args ...any) {
	note := shortened(fmt.Sprintf(format, args...))
	a.recorder.Eventf(kafka, related, corev1.EventTypeNormal, reason, action, "%s", note)
	a.journal.event(kafka, related, reason, action, note)
}

func shortened(note string) string { return excerpt.Ends(note, maxNote) }
