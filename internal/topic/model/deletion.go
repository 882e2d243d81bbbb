package model

import (
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// DecideDeletion says what becomes of a topic whose object a person has deleted. Only a topic that is known to be that of the object
// is deleted in Kafka, by the id in the status: one that stays can be deleted later, and one that is gone cannot be brought back.
func DecideDeletion(o Observed) Decision {
	d := Decision{State: condition.Ready, Name: o.Topic.Status.TopicName, ID: o.Topic.Status.TopicID, Warnings: slices.Clone(o.Unnoticed)}
	switch {
	case !IsManaged(o.Topic):
		o.keepTopic(&d, "the annotation "+managedAnnotation+" of the KafkaTopic is false")
	case o.Kafka == nil:
		d.LetGo = true
		d.Event = &Remark{KafkaDeleted, Abandoned(o.Cluster)}
	case IsPaused(o.Topic):
		o.pause(&d, "The KafkaTopic is deleted, and its topic in Kafka is not yet. ")
	case o.successor() != "":
		o.keepTopic(&d, fmt.Sprintf("KafkaTopic %s manages it, too", o.successor()))
	case topics.IsInternal(Name(o.Topic)):
		o.keepTopic(&d, "it is one of Kafka's own")
	case o.Held == nil && o.Unknown == nil:
		d.LetGo = true
	case o.knownID() == "":
		// The status gets the id with the next reconcile after a topic is created or found: without one, the operator crashed between
		// the two, or the topic is one that others had created and that this object never managed.
		o.keepTopic(&d, "the KafkaTopic never had its id, and others may have created it")
	case o.Unknown != nil:
		d.Problem = &Remark{o.Unknown.Reason, o.Unknown.Message + " " + waits}
	case o.Held.ID.String() != o.knownID():
		o.keepTopic(&d, fmt.Sprintf("it has the id %s in place of %s, so that others have created it", o.Held.ID, shown(o.knownID())))
	default:
		d.Delete, d.LetGo = &o.Held.ID, true
		d.Event = &Remark{TopicDeleted, fmt.Sprintf("Deleted topic %s with id %s in Kafka, as the KafkaTopic was deleted", shown(Name(o.Topic)), o.Held.ID)}
	}
	return d
}

// waits follows the problem of a deleted object.
const waits = "The KafkaTopic is deleted once its topic is. To delete it now and keep the topic, set its annotation " + managedAnnotation + " to false."

// NotDeleted is the problem of a deleted object whose topic Kafka does not delete.
func NotDeleted(problem Remark) Remark { return Remark{problem.Reason, problem.Message + " " + waits} }

// DeletionDisabled is the problem when brokers delete no topic.
func DeletionDisabled(kafka string) Remark {
	return Remark{KafkaError, fmt.Sprintf("The brokers of Kafka %s have delete.topic.enable=false. The topic is not deleted. Remove that from spec.kafka.config of the Kafka.", kafka)}
}

// keepTopic lets the object go without its topic.
func (o Observed) keepTopic(d *Decision, why string) {
	d.LetGo = true
	if o.Kafka != nil {
		d.Event = &Remark{TopicKept, fmt.Sprintf("Topic %s is not deleted in Kafka: %s", shown(Name(o.Topic)), why)}
	}
}

// successor is the name of another KafkaTopic that manages the topic, or asks for it; empty when there is none.
func (o Observed) successor() string {
	for _, other := range o.Others {
		if IsManaged(other) && other.DeletionTimestamp.IsZero() && slices.Contains(Names(other), Name(o.Topic)) {
			return other.Name
		}
	}
	return ""
}
