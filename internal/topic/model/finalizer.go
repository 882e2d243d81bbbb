package model

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/kafka/finalizers"
)

// foreignFinalizer is that of Strimzi's topic operator, which this one takes the place of.
const foreignFinalizer = "strimzi.io/topic-operator"

// Finalizer keeps a KafkaTopic until it is decided what becomes of the topic in this Kafka, whatever its label says by then.
func Finalizer(kafka string) string { return finalizers.Topics.Of(kafka) }

// IsKeptFor reports whether a Kafka may have a topic of an object.
func IsKeptFor(topic metav1.Object, kafka string) bool {
	return finalizers.Topics.IsKeptFor(topic, kafka)
}

// IsForeign reports whether Strimzi's topic operator has left its finalizer on an object.
func IsForeign(topic metav1.Object) bool {
	return slices.Contains(topic.GetFinalizers(), foreignFinalizer)
}

// KeepFor puts the finalizer of a Kafka on an object in memory, in place of the foreign one, and reports whether that changed anything.
func KeepFor(topic metav1.Object, kafka string) bool {
	isForeign := removeForeign(topic)
	return finalizers.Topics.KeepFor(topic, kafka) || isForeign
}

// LetGo removes what keeps an object in memory for a Kafka, the foreign finalizer too, and reports whether there was anything.
func LetGo(topic metav1.Object, kafka string) bool {
	isForeign := removeForeign(topic)
	return finalizers.Topics.LetGo(topic, kafka) || isForeign
}

// LetGoOf removes what keeps an object in memory for a Kafka that its label does not name, and reports whether there was anything. The
// foreign finalizer may be that of another operator.
func LetGoOf(topic metav1.Object, kafka string) bool {
	return finalizers.Topics.LetGo(topic, kafka)
}

func removeForeign(topic metav1.Object) bool {
	before := topic.GetFinalizers()
	left := slices.DeleteFunc(slices.Clone(before), func(finalizer string) bool { return finalizer == foreignFinalizer })
	topic.SetFinalizers(left)
	return len(left) < len(before)
}

// KafkaDeleted is the reason of the event about an object that is let go because its Kafka is gone.
const KafkaDeleted = "KafkaDeleted"

// Abandoned is the text of that event.
func Abandoned(kafka string) string {
	return fmt.Sprintf("Removed finalizer %s: Kafka %s is deleted. No topic is deleted in Kafka.", Finalizer(kafka), kafka)
}
