package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Annotations of a Kafka that people set.
const (
	// PauseAnnotation, when true, keeps the operator's hands off a Kafka.
	PauseAnnotation = authorities.PauseAnnotation
	// ReloadAnnotation, when false, makes nodes load certificates and trust by restarts only.
	ReloadAnnotation = "keyturn.dev/reload"
)

// Says reports whether an annotation, or its absence, says a word, in any case of letters.
func Says(annotations map[string]string, annotation, word string) bool {
	return strings.EqualFold(annotations[annotation], word)
}

// RestartRequested reports whether a person asks, by the annotations of a pod or of a
// StrimziPodSet, for a restart of the pod or of all pods of the set.
func RestartRequested(annotations map[string]string) bool {
	return Says(annotations, ManualRollingUpdateAnnotation, textTrue)
}

// IdleAnnotation is an annotation that nobody acts on.
type IdleAnnotation struct {
	Key, Value string
	// Why says why it has no effect and what to do about it, without naming it.
	Why string
}

// DeletePodAndClaimsAnnotation asks Strimzi to delete a pod with its PersistentVolumeClaims.
const DeletePodAndClaimsAnnotation = "strimzi.io/delete-pod-and-pvc"

// MaxIdle is how many annotations of one object are told to have no effect. Anybody may
// write thousands.
const MaxIdle = 8

// ReadOfPods are the annotations of pods that something follows from, whoever has written them.
func ReadOfPods() []string {
	entries := slices.Concat(shapeAnnotations(), certificateAnnotations())
	read := make([]string, 0, len(entries)+5)
	read = append(read, agent.PinAnnotation, agent.PublishedAnnotation, agent.GivenAnnotation,
		ManualRollingUpdateAnnotation, DeletePodAndClaimsAnnotation)
	for _, entry := range entries {
		read = append(read, entry.annotation)
	}
	return read
}

// IdlePodAnnotations are the first few annotations of a pod, of those with the operator's
// prefixes, that ask for nothing: whoever wrote one believes that it was obeyed.
func IdlePodAnnotations(annotations map[string]string) []IdleAnnotation {
	return idleBeside(ReadOfPods(), annotations, "pod")
}

// IdlePodSetAnnotations are those of a StrimziPodSet.
func IdlePodSetAnnotations(annotations map[string]string) []IdleAnnotation {
	return idleBeside([]string{NodesAnnotation, StorageAnnotation, KafkaVersionAnnotation, ManualRollingUpdateAnnotation}, annotations, "StrimziPodSet")
}

// idleBeside are the annotations of an object of a kind that nobody reads, and a request for
// a restart that is none.
func idleBeside(read []string, annotations map[string]string, kind string) []IdleAnnotation {
	unread := slices.DeleteFunc(ownKeys(annotations), func(key string) bool { return slices.Contains(read, key) })
	idle := make([]IdleAnnotation, 0, MaxIdle+1)
	for _, key := range unread[:min(len(unread), MaxIdle)] {
		idle = append(idle, IdleAnnotation{key, annotations[key], "has no effect on a " + kind +
			": correct it if it is misspelled, or remove it; what is read there is " + ManualRollingUpdateAnnotation})
	}
	value, asked := annotations[ManualRollingUpdateAnnotation]
	if asked && !RestartRequested(annotations) && !Says(annotations, ManualRollingUpdateAnnotation, "false") {
		idle = append(idle, IdleAnnotation{ManualRollingUpdateAnnotation, value, neitherTrueNorFalse(value)})
	}
	return idle
}

// IdleUserAnnotations are those of a KafkaUser, whose credentials are in a Secret.
func IdleUserAnnotations(annotations map[string]string, secret string) []IdleAnnotation {
	read := []string{PauseAnnotation, accessAnnotation}
	unread := slices.DeleteFunc(ownKeys(annotations), func(key string) bool { return slices.Contains(read, key) })
	idle := make([]IdleAnnotation, 0, MaxIdle+1)
	for _, key := range unread[:min(len(unread), MaxIdle)] {
		why := "has no effect on a KafkaUser: correct it if it is misspelled, or remove it; what is read there is " + strings.Join(read, ", ")
		if key == authorities.ForceRenewAnnotation {
			why = "has no effect on a KafkaUser: set it on Secret " + secret + ", and remove it here"
		}
		idle = append(idle, IdleAnnotation{key, annotations[key], why})
	}
	value, asked := annotations[PauseAnnotation]
	if asked && !Says(annotations, PauseAnnotation, textTrue) && !Says(annotations, PauseAnnotation, "false") {
		idle = append(idle, IdleAnnotation{PauseAnnotation, value, neitherTrueNorFalse(value)})
	}
	return idle
}

func neitherTrueNorFalse(value string) string {
	return fmt.Sprintf("is %q, which has no effect: set it to \"true\" or \"false\", or remove it", excerpt.Of(value, excerpt.Value))
}

// switches are the annotations of a Kafka that are true or false; any other value does
// nothing.
func switches() []string {
	return []string{PauseAnnotation, skipScaleDownCheckAnnotation, ReloadAnnotation, authority.AllowSharedAnnotation}
}

// accessAnnotation of a Kafka or a KafkaUser is read by the access operator, which knows what it means.
const accessAnnotation = "keyturn.dev/access-from"

// needless are annotations of a Kafka that say what is always so in Keyturn, with the
// value that says it.
func needless() map[string]string {
	return map[string]string{"strimzi.io/kraft": "enabled", "strimzi.io/node-pools": "enabled"}
}

// warnAnnotations names the annotations of the Kafka, of those with the operator's
// prefixes, that nobody acts on: whoever wrote one believes that it was obeyed.
func (r *resolver) warnAnnotations() {
	annotations := r.in.Kafka.Annotations
	for _, key := range ownKeys(annotations) {
		value := annotations[key]
		switch usual, known := needless()[key]; {
		case known && value == usual, key == accessAnnotation:
		case known:
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, fmt.Sprintf("is %q, which has no effect: a Kafka of Keyturn is made of node pools with KRaft; remove it", value))
		case !slices.Contains(switches(), key):
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, "has no effect on a Kafka: correct it if it is misspelled, or remove it; what is read there is "+strings.Join(switches(), ", "))
		case !Says(annotations, key, textTrue) && !Says(annotations, key, "false"):
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, neitherTrueNorFalse(value))
		}
	}
}

// warnPoolAnnotations does the same for a pool.
func (r *resolver) warnPoolAnnotations(pool *kafkav1.KafkaNodePool) {
	read := []string{nextNodeIDsAnnotation, removeNodeIDsAnnotation}
	for _, key := range ownKeys(pool.Annotations) {
		value := pool.Annotations[key]
		if !slices.Contains(read, key) {
			r.idle(r.poolObject(pool.Name), authority.AnnotationPart(key, value), key, "has no effect on a KafkaNodePool: correct it if it is misspelled, or remove it; what is read there is "+strings.Join(read, ", "))
		}
	}
}

func (r *resolver) idle(object, part, annotation, why string) {
	r.findings.Warnings = append(r.findings.Warnings, Finding{
		Object: object, Part: part, Reason: ReasonIdleAnnotation, Message: "the annotation " + annotation + " " + why,
	})
}

// ownKeys are the keys of the operator's prefixes, sorted.
func ownKeys(annotations map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(key string) bool { return !OwnKey(key) })
}
