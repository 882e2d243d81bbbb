package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Reason is why a topic is not ready, or what a warning or an event is about.
type Reason string

// The reasons.
const (
	NotSupported         Reason = "NotSupported"
	ResourceConflict     Reason = "ResourceConflict"
	KafkaError           Reason = "KafkaError"
	InvalidConfig        Reason = "InvalidConfig"
	MissingKafka         Reason = "MissingKafka"
	KafkaUnreachable     Reason = "KafkaUnreachable"
	NotAuthorized        Reason = "NotAuthorized"
	ClusterLabelChanged  Reason = "ClusterLabelChanged"
	ReconciliationPaused Reason = "ReconciliationPaused"
	Unmanaged            Reason = "Unmanaged"
	// TopicRecreated: the topic that Kafka had was deleted there, and its records are lost.
	TopicRecreated Reason = "TopicRecreated"
	// TopicKept: a KafkaTopic is deleted, and the topic in Kafka is not.
	TopicKept Reason = "TopicKept"
	// TopicAdopted: Kafka had the topic before, and the KafkaTopic changes its properties.
	TopicAdopted Reason = "TopicAdopted"
	// TopicCreated and TopicDeleted are those of events.
	TopicCreated Reason = "TopicCreated"
	TopicDeleted Reason = "TopicDeleted"
	// WatchDenied: changes of what the topic depends on are not noticed.
	WatchDenied Reason = "WatchDenied"
)

// Remark tells a person what is wrong and what to do.
type Remark struct {
	Reason  Reason
	Message string
}

// Observed is everything that a decision about a topic depends on.
type Observed struct {
	Topic *kafkav1.KafkaTopic
	// Cluster is the name of the Kafka, and Kafka that cluster, nil when it does not exist or is being deleted.
	Cluster string
	Kafka   *kafkav1.Kafka
	// Others are the other KafkaTopics of the Kafka that name the same topic.
	Others []*kafkav1.KafkaTopic
	// Unknown is why it is not known what Kafka holds; nil when it is known.
	Unknown *Remark
	// Held is what Kafka holds under the name of the topic, nil when there is no such topic.
	Held *topics.Topic
	// Unnoticed are the warnings about watches that are denied.
	Unnoticed []Remark
	Now       time.Time
}

// managedAnnotation, when false, has the topic in Kafka left alone.
const managedAnnotation = "strimzi.io/managed"

// IsManaged reports whether the topic in Kafka is made what a KafkaTopic says.
func IsManaged(topic *kafkav1.KafkaTopic) bool {
	return !kafkamodel.Says(topic.Annotations, managedAnnotation, "false")
}

// IsPaused reports whether a person asks for a topic to be left as it is.
func IsPaused(topic *kafkav1.KafkaTopic) bool {
	return kafkamodel.Says(topic.Annotations, kafkamodel.PauseAnnotation, "true")
}

// NeedsKafka reports whether anything of a topic depends on what Kafka holds.
func NeedsKafka(topic *kafkav1.KafkaTopic) bool { return IsManaged(topic) && !IsPaused(topic) }

// wantedName is the name that a KafkaTopic gives to its topic.
func wantedName(topic *kafkav1.KafkaTopic) string { return cmp.Or(topic.Spec.TopicName, topic.Name) }

// Name is the name of the topic in the Kafka that the label names. One that exists there keeps its name.
func Name(topic *kafkav1.KafkaTopic) string {
	isHere := IsKeptFor(topic, topic.Labels[kafkamodel.ClusterLabel]) || IsForeign(topic)
	if isHere && topic.Status.TopicID != "" && topic.Status.TopicName != "" {
		return topic.Status.TopicName
	}
	return wantedName(topic)
}

// IsOfAnotherKafka reports whether the status may be about a topic of another Kafka. Kept for this one, the object would be believed
// to have that topic here.
func (o Observed) IsOfAnotherKafka() bool { return o.Topic.Status.TopicID != "" && o.knownID() == "" }

// Names are all names by which a KafkaTopic is about a topic in Kafka: the one it has, and the one that it asks for.
func Names(topic *kafkav1.KafkaTopic) []string {
	has, wants := Name(topic), wantedName(topic)
	if has == wants {
		return []string{has}
	}
	return []string{has, wants}
}

// knownID is the id of the topic that a topic operator has created or found for the object, empty when there is none: one in the
// status of an object that nothing keeps for this Kafka may be that of another Kafka.
func (o Observed) knownID() string {
	if !IsKeptFor(o.Topic, o.Cluster) && !IsForeign(o.Topic) {
		return ""
	}
	return o.Topic.Status.TopicID
}

// Requests are the annotations by which people speak to operators.
func Requests(topic *kafkav1.KafkaTopic) map[string]string {
	own := maps.Clone(topic.Annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return !authorities.OwnKey(key) })
	return own
}

// ClaimOf is what counts of a KafkaTopic for others that are about the same topic. Equal ones count the same.
func ClaimOf(topic *kafkav1.KafkaTopic) string {
	return fmt.Sprint(topic.UID, topic.CreationTimestamp, IsManaged(topic), topic.DeletionTimestamp.IsZero(), Names(topic), topic.Status.TopicID != "")
}

// CountOutside counts the topics in Kafka that are no KafkaTopics. Those of Kafka's own are left out.
func CountOutside(held []string, isKafkaTopic func(name string) bool) int {
	return len(slices.DeleteFunc(held, func(name string) bool { return topics.IsInternal(name) || isKafkaTopic(name) }))
}
