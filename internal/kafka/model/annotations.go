package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/idle"
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

// DeletePodAndClaimsAnnotation asks Strimzi to delete a pod with its PersistentVolumeClaims.
const DeletePodAndClaimsAnnotation = "strimzi.io/delete-pod-and-pvc"

// ReadOfPods are the annotations of pods that have an effect, whichever client has written them.
func ReadOfPods() []string {
	entries := slices.Concat(shapeAnnotations(), certificateAnnotations())
	read := append(agent.PublicationAnnotations(), ManualRollingUpdateAnnotation, DeletePodAndClaimsAnnotation)
	for _, entry := range entries {
		read = append(read, entry.annotation)
	}
	return read
}

// IdlePodAnnotations are the first few annotations of a pod that have the operator's prefixes
// but no effect. A warning about them tells their author that the request was ignored.
func IdlePodAnnotations(annotations map[string]string) []idle.Annotation {
	return restarted("a pod", ReadOfPods()).Find(annotations)
}

// IdlePodSetAnnotations are those of a StrimziPodSet.
func IdlePodSetAnnotations(annotations map[string]string) []idle.Annotation {
	return restarted("a StrimziPodSet", []string{NodesAnnotation, StorageAnnotation, KafkaVersionAnnotation}).Find(annotations)
}

// restarted is a kind of object whose annotations people may use to ask for a restart.
func restarted(kind string, written []string) idle.Kind {
	request := []string{ManualRollingUpdateAnnotation}
	return idle.Kind{Name: kind, IsRequest: authorities.OwnKey, Read: request, Switches: request, Written: written}
}

// IdleUserAnnotations are those of a KafkaUser, whose credentials are in a Secret.
func IdleUserAnnotations(annotations map[string]string, secret string) []idle.Annotation {
	return idle.Kind{
		Name: "a KafkaUser", IsRequest: authorities.OwnKey, Read: []string{PauseAnnotation, accessAnnotation}, Switches: []string{PauseAnnotation},
		Elsewhere: map[string]string{authorities.ForceRenewAnnotation: "set it on Secret " + secret + ", and remove it here"},
	}.Find(annotations)
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

// warnAnnotations names the annotations of the Kafka that have the operator's prefixes but
// no effect. Their author would otherwise believe that the request was carried out.
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
		case !idle.IsSwitch(value):
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, idle.NotASwitch(value))
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
	return slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(key string) bool { return !authorities.OwnKey(key) })
}
