package model

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/kafka/finalizers"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
)

// Finalizer keeps a KafkaUser until this Kafka holds nothing for it any more, whatever the label of the user says by then.
func Finalizer(kafka string) string { return finalizers.Users.Of(kafka) }

// IsKeptFor reports whether a Kafka may hold something for a user.
func IsKeptFor(user metav1.Object, kafka string) bool { return finalizers.Users.IsKeptFor(user, kafka) }

// KeepFor puts the finalizer of a Kafka on a user in memory, and reports whether that changed anything.
func KeepFor(user metav1.Object, kafka string) bool { return finalizers.Users.KeepFor(user, kafka) }

// LetGo removes what keeps a user in memory for a Kafka, and reports whether there was anything.
func LetGo(user metav1.Object, kafka string) bool { return finalizers.Users.LetGo(user, kafka) }

// KafkaDeleted is the reason of the event about a user that is let go because its Kafka is gone.
const KafkaDeleted = "KafkaDeleted"

// Abandoned is the text of that event.
func Abandoned(kafka string) string {
	if kafka == "" {
		return fmt.Sprintf("Removed finalizer %s: no label %s names a Kafka. Nothing of the user is removed from Kafka.", finalizers.Users, kafkamodel.ClusterLabel)
	}
	return fmt.Sprintf("Removed finalizer %s: Kafka %s is deleted. Nothing of the user is removed from Kafka.", Finalizer(kafka), kafka)
}
