package model

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
)

const (
	// unnamedFinalizer names no Kafka: it is that of the label.
	unnamedFinalizer = "keyturn.dev/kafka-user"
	// finalizerSuffix follows the name of a Kafka.
	finalizerSuffix = "." + unnamedFinalizer
)

// Finalizer keeps a KafkaUser until this Kafka holds nothing for it any more, whatever the label of the user says by then.
func Finalizer(kafka string) string { return kafka + finalizerSuffix }

// KeptFor are the Kafkas that may hold something for a user. The empty name is that of none.
func KeptFor(user metav1.Object) []string {
	var kafkas []string
	for _, finalizer := range user.GetFinalizers() {
		if kafka, is := named(user, finalizer); is && !slices.Contains(kafkas, kafka) {
			kafkas = append(kafkas, kafka)
		}
	}
	return kafkas
}

// IsKeptFor reports whether a Kafka may hold something for a user.
func IsKeptFor(user metav1.Object, kafka string) bool { return slices.Contains(KeptFor(user), kafka) }

// KeepFor puts the finalizer of a Kafka on a user in memory, and reports whether that changed anything.
func KeepFor(user metav1.Object, kafka string) bool {
	if slices.Contains(user.GetFinalizers(), Finalizer(kafka)) {
		return false
	}
	LetGo(user, kafka)
	user.SetFinalizers(append(user.GetFinalizers(), Finalizer(kafka)))
	return true
}

// LetGo removes what keeps a user in memory for a Kafka, and reports whether there was anything.
func LetGo(user metav1.Object, kafka string) bool {
	before := user.GetFinalizers()
	left := slices.DeleteFunc(slices.Clone(before), func(finalizer string) bool {
		of, is := named(user, finalizer)
		return is && of == kafka
	})
	user.SetFinalizers(left)
	return len(left) < len(before)
}

// named is the Kafka that a finalizer is about, and whether it is about one.
func named(user metav1.Object, finalizer string) (string, bool) {
	if finalizer == unnamedFinalizer {
		return user.GetLabels()[kafkamodel.ClusterLabel], true
	}
	return strings.CutSuffix(finalizer, finalizerSuffix)
}

// KafkaDeleted is the reason of the event about a user that is let go because its Kafka is gone.
const KafkaDeleted = "KafkaDeleted"

// Abandoned is the text of that event.
func Abandoned(kafka string) string {
	if kafka == "" {
		return fmt.Sprintf("Removed finalizer %s: no label %s names a Kafka. Nothing of the user is removed from Kafka.", unnamedFinalizer, kafkamodel.ClusterLabel)
	}
	return fmt.Sprintf("Removed finalizer %s: Kafka %s is deleted. Nothing of the user is removed from Kafka.", Finalizer(kafka), kafka)
}
