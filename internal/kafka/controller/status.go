package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/idle"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// Reasons of conditions. Those that the model and the authorities give are
// theirs.
const (
	reasonCreating            = model.ReasonCreating
	reasonCertificatesExpired = "CertificatesExpired"
	reasonRotationBlocked     = "RotationBlocked"
	reasonPodsNotReady        = "PodsNotReady"
	reasonFailed              = "ReconciliationFailed"
	reasonUnknownFields       = "UnknownFields"
	reasonFieldsWithoutEffect = "FieldsWithoutEffect"
	reasonDiffersFromSpec     = model.ReasonDiffersFromSpec
	reasonIdleAnnotation      = model.ReasonIdleAnnotation
	reasonAuthority           = "CertificateAuthority"
	reasonListenerCertificate = "ListenerCertificate"
	reasonListenerChain       = "ListenerCertificateChain"
	reasonListenerName        = "ListenerNameMissing"
	reasonListenerExpiring    = "ListenerCertificateExpiring"
	reasonWindows             = "MaintenanceTimeWindows"
	reasonSilent              = "AgentSilent"
	reasonProgressing         = "Progressing"
	reasonBlocked             = "Blocked"
	reasonPaused              = "ReconciliationPaused"
	reasonMoreWarnings        = "MoreWarnings"
	reasonHiddenCertificates  = "ListenerCertificatesNotShown"
	reasonNotRecorded         = "TrustNotRecorded"
	reasonClock               = "ClockDiffers"
	reasonWatchDenied         = "WatchDenied"
)

// conditionRollingUpdate is True while nodes are to be restarted or removed; its
// message says which, and who is waited for.
const conditionRollingUpdate condition.Type = "RollingUpdate"

// wanted is a condition that holds, before it has a time.
type wanted struct {
	kind            condition.Type
	reason, message string
	// status is True when it is empty.
	status condition.Status
}

func holds(kind condition.Type, reason, message string) wanted {
	return wanted{kind: kind, reason: reason, message: message}
}

func notReady(reason, message string) wanted {
	return wanted{kind: condition.NotReady, reason: reason, message: message}
}

// conditions gives each wanted condition the time at which it began: that of the
// same condition in the present status, or now.
func (o *observation) conditions(list []wanted) []condition.Condition {
	return conditionsSince(list, o.kafka.Status.Conditions, o.now)
}

func conditionsSince(list []wanted, before []condition.Condition, now time.Time) []condition.Condition {
	list = withinStatus(list)
	out := make([]condition.Condition, 0, len(list))
	for _, w := range list {
		out = append(out, condition.Condition{Type: w.kind, Status: cmp.Or(w.status, condition.True), Reason: w.reason, Message: w.message})
	}
	return kstatus.Strimzi(out, before, now)
}

// warnings are the denied watches, the findings, the notes, and the fields without effect, by object.
func (c *decided) warnings() []wanted {
	var list []wanted
	for _, denial := range c.denied {
		list = append(list, c.about(deniedWatch(denial), reasonWatchDenied, denial.Report(clusterOperator, whileDenied)))
	}
	for _, finding := range slices.Concat(c.findings.Warnings, c.notes) {
		list = append(list, c.about(object{name: finding.Object, part: finding.Part}, finding.Reason, finding.String()))
	}
	for _, kind := range kinds() {
		for _, remark := range slices.Concat(c.domain(kind).Warnings, c.domain(kind).remarks) {
			list = append(list, c.about(object{name: remark.Object(), part: remark.Part}, reasonAuthority, remark.String()))
		}
	}
	list = append(list, c.silence()...)
	list = append(list, c.exclusionWarnings()...)
	list = append(list, c.annotationWarnings()...)
	found := fields.InSpec[kafkav1.Kafka](c.written)
	found.WithoutEffect = append(found.WithoutEffect, model.IdleAuthorityFields(c.kafka.Spec)...)
	slices.Sort(found.WithoutEffect)
	return append(list, fieldWarnings("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, found)...)
}

// object is what a warning is about.
type object struct {
	// name is "KIND NAME" or "KIND NAMESPACE/NAME"; empty when it is the Kafka, or what
	// there is no object of.
	name string
	// part is that part of it where several warnings of one reason stand beside each other.
	part string
	// sentence is the constant end of a message. The pods, kinds or names listed before it
	// change from one reconcile to the next.
	sentence string
}

// about is a warning, of which is remembered what it is about.
func (o *observation) about(what object, reason, message string) wanted {
	if o.objectOf == nil {
		o.objectOf = map[string]object{}
	}
	o.objectOf[message] = what
	return holds(condition.Warning, reason, message)
}

// silence are the warnings about agents that do not answer, or whose answer is unreadable.
func (c *polled) silence() []wanted {
	var list []wanted
	var silent []string
	for _, pod := range c.silent {
		if why := c.reports[pod].unreadable; why != "" {
			list = append(list, c.about(object{name: "Pod " + pod}, reasonSilent, "Pod "+pod+": "+why))
			continue
		}
		silent = append(silent, pod)
	}
	if len(silent) > 0 {
		sentence := fmt.Sprintf(", so it is unknown what is trusted and presented there: check what keeps the operator from reaching port %d", agent.SecurePort)
		who := fmt.Sprintf(excerpt.Numbered(len(silent),
			"the agent of pod %s does not answer the operator", "the agents of pods %s do not answer the operator"), excerpt.List(silent, ", ", excerpt.Listed))
		list = append(list, c.about(object{sentence: sentence}, reasonSilent, who+sentence))
	}
	return list
}

// annotationWarnings are about annotations of pods and pod sets that have no effect.
func (o *observation) annotationWarnings() []wanted {
	list := append(o.claimWarnings(), o.podAnnotationWarnings()...)
	for _, name := range slices.Sorted(maps.Keys(o.podSets)) {
		for _, unread := range model.IdlePodSetAnnotations(o.podSets[name].Annotations) {
			set := object{name: podSetKind + " " + o.kafka.Namespace + "/" + name, part: authority.AnnotationPart(unread.Key, unread.Value)}
			list = append(list, o.about(set, reasonIdleAnnotation, set.name+": the annotation "+unread.Key+" "+unread.Why))
		}
	}
	return list
}

// podAnnotationWarnings name the pods with the same annotation in one sentence: all pods of a cluster are annotated
// by one command.
func (o *observation) podAnnotationWarnings() []wanted {
	bearers := map[idle.Annotation][]string{}
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		for _, unread := range model.IdlePodAnnotations(o.pods[name].Annotations) {
			bearers[unread] = append(bearers[unread], name)
		}
	}
	list := make([]wanted, 0, len(bearers))
	for unread, pods := range bearers {
		list = append(list, o.aboutPods(pods, unread))
	}
	slices.SortFunc(list, func(a, b wanted) int { return strings.Compare(a.message, b.message) })
	return list
}

// aboutPods is the warning about an annotation without effect of several pods, which is
// told once, however many more are given it.
func (o *observation) aboutPods(pods []string, unread idle.Annotation) wanted {
	sentence := ": the annotation " + unread.Key + " " + unread.Why
	return o.about(object{part: authority.AnnotationPart(unread.Key, unread.Value), sentence: sentence}, reasonIdleAnnotation,
		fmt.Sprintf(excerpt.Numbered(len(pods), "pod %s", "pods %s"), excerpt.List(pods, ", ", excerpt.Listed))+sentence)
}

// claimWarnings are about claims that an annotation asks to delete. The operator does not delete them, because their
// data cannot be restored.
func (o *observation) claimWarnings() []wanted {
	var asked []string
	for name, pod := range o.pods {
		_, asks := pod.Annotations[model.DeletePodAndClaimsAnnotation] // with whatever value: none has an effect
		if asks && !model.Says(pod.Annotations, model.DeletePodAndClaimsAnnotation, "false") {
			asked = append(asked, name)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	slices.Sort(asked)
	return []wanted{o.aboutPods(asked, idle.Annotation{Key: model.DeletePodAndClaimsAnnotation, Value: isTrue, Why: "has no effect: " +
		"once all partitions have enough replicas elsewhere, delete the PersistentVolumeClaims and the pod yourself, one node at a time, and remove the annotation"})}
}

// fieldWarnings are about fields of an object that have no effect, by severity. An unknown field was meant for
// something else, an unmet one is relied on, and any other does no harm.
func fieldWarnings(object string, found fields.Found) []wanted {
	var list []wanted
	if len(found.Unknown) > 0 {
		list = append(list, holds(condition.Warning, reasonUnknownFields, fmt.Sprintf(
			"%s: unknown fields, which have no effect: %s; correct those that are misspelled or misplaced, and remove the rest",
			object, excerpt.List(found.Unknown, ", ", excerpt.Listed))))
	}
	if len(found.Unmet) > 0 {
		list = append(list, holds(condition.Warning, reasonDiffersFromSpec, fmt.Sprintf(
			"%s: Keyturn does not do what these fields ask for, so what runs differs from them: %s; check that you can do without it, and remove them",
			object, excerpt.List(found.Unmet, ", ", excerpt.Listed))))
	}
	if len(found.WithoutEffect) > 0 {
		list = append(list, holds(condition.Warning, reasonFieldsWithoutEffect, fmt.Sprintf(
			"%s: these fields are kept but have no effect in Keyturn, and nothing is missed: %s; remove them unless another tool reads them",
			object, excerpt.List(found.WithoutEffect, ", ", excerpt.Listed))))
	}
	return list
}

// writeStatus writes the status of the Kafka when it differs from the present one. The users in it are the user
// operator's.
func (r *Reconciler) writeStatus(ctx context.Context, o *observation, status kafkav1.KafkaStatus) error {
	r.metrics.Told(types.NamespacedName{Namespace: o.kafka.Namespace, Name: o.kafka.Name}, status.Conditions)
	status.Users = o.kafka.Status.Users
	if reflect.DeepEqual(status, o.kafka.Status) {
		return nil
	}
	own := status
	own.Users = nil
	if err := r.applyStatus(ctx, o, kafkav1.KindKafka, &o.kafka, &own); err != nil {
		return err
	}
	r.announce(o, status.Conditions)
	o.kafka.Status = status
	return nil
}

// announce tells of warnings and failures that were not there before, object by object,
// and writes all transitions down.
func (r *Reconciler) announce(o *observation, after []condition.Condition) {
	r.events.journal.conditions(&o.kafka, o.kafka.Status.Conditions, after, o.objectOf)
	for _, told := range after {
		if told.Type != condition.Warning && told.Type != condition.NotReady || told.Reason == reasonCreating {
			continue
		}
		what := o.objectOf[told.Message]
		same := func(old condition.Condition) bool {
			return old.Type == told.Type && old.Reason == told.Reason && what.isIn(old.Message, told.Message)
		}
		if !slices.ContainsFunc(o.kafka.Status.Conditions, same) {
			r.events.conditionChanged(&o.kafka, what, told.Reason, told.Message)
		}
	}
}

// isIn reports whether an earlier message is about the same as a present one. Of a part of
// an object there is nothing to say but one sentence.
func (o object) isIn(earlier, message string) bool {
	switch {
	case o.sentence != "":
		return strings.HasSuffix(earlier, o.sentence)
	case o.part != "":
		return earlier == message
	default:
		return o.name == "" || strings.HasPrefix(earlier, o.name+":")
	}
}

func (r *Reconciler) applyStatus(ctx context.Context, o *observation, kind string, object client.Object, status any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status of %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	intent := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kafkav1.GroupVersion.String(),
		"kind":       kind,
		"metadata": map[string]any{
			"name": object.GetName(), "namespace": object.GetNamespace(), "uid": string(object.GetUID()),
		},
		"status": fields,
	}}
	return r.appliers.Of(o.kafka.UID).ApplyStatus(ctx, client.ApplyConfigurationFromUnstructured(intent))
}
