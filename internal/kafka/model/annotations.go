package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
)

// Annotations of a Kafka that people set.
const (
	// PauseAnnotation, when true, keeps the operator's hands off a Kafka.
	PauseAnnotation = "strimzi.io/pause-reconciliation"
	// ReloadAnnotation, when false, makes nodes load certificates and trust by restarts only.
	ReloadAnnotation = "keyturn.dev/reload"
)

// Says reports whether an annotation, or its absence, says a word, in any case of letters.
func Says(annotations map[string]string, annotation, word string) bool {
	return strings.EqualFold(annotations[annotation], word)
}

// switches are the annotations of a Kafka that are true or false; any other value does
// nothing.
func switches() []string {
	return []string{PauseAnnotation, skipScaleDownCheckAnnotation, ReloadAnnotation, authority.AllowSharedAnnotation}
}

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
		case known && value == usual:
		case known:
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, fmt.Sprintf("is %q, which has no effect: a Kafka of Keyturn is made of node pools with KRaft; remove it", value))
		case !slices.Contains(switches(), key):
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, "has no effect on a Kafka: correct it if it is misspelled, or remove it; what is read there is "+strings.Join(switches(), ", "))
		case !Says(annotations, key, textTrue) && !Says(annotations, key, "false"):
			r.idle(r.kafkaObject(), authority.AnnotationPart(key, value), key, fmt.Sprintf("is %q, which has no effect: set it to \"true\" or \"false\", or remove it", value))
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
