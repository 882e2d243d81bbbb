package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// Owner is the field manager of what a topic operator applies.
const Owner = "keyturn-topic-operator"

// Status is what the status of a topic shall be.
func Status(o Observed, d Decision) kafkav1.KafkaTopicStatus {
	wanted := make([]condition.Condition, 0, len(d.Warnings)+1)
	for _, warning := range d.Warnings {
		wanted = append(wanted, newCondition(condition.Warning, condition.True, warning))
	}
	switch {
	case d.Problem != nil:
		wanted = append(wanted, newCondition(condition.Ready, condition.False, *d.Problem))
	default:
		wanted = append(wanted, newCondition(d.State, condition.True, d.Why))
	}
	return kafkav1.KafkaTopicStatus{
		Conditions:         kstatus.Strimzi(wanted, o.Topic.Status.Conditions, o.Now),
		ObservedGeneration: o.Topic.Generation,
		TopicName:          d.Name,
		TopicID:            d.ID,
	}
}

func newCondition(kind condition.Type, status condition.Status, r Remark) condition.Condition {
	return condition.Condition{Type: kind, Status: status, Reason: string(r.Reason), Message: r.Message}
}

// HasBegun reports whether a status does not tell of a problem yet.
func HasBegun(status kafkav1.KafkaTopicStatus, problem Remark) bool {
	return !slices.ContainsFunc(status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.Ready && c.Status == condition.False && c.Reason == string(problem.Reason)
	})
}

// Departed is the decision about a topic whose label does not name this Kafka any more: the topic in Kafka stays.
func Departed(topic *kafkav1.KafkaTopic, kafka string) Decision {
	now := "names no Kafka"
	if label := topic.Labels[kafkamodel.ClusterLabel]; label != "" {
		now = "names Kafka " + label
	}
	return Decision{State: condition.Ready, Problem: &Remark{ClusterLabelChanged, fmt.Sprintf("The label %s %s and not %s any more. Topic %s stays in Kafka %s, "+
		"and is not managed. Correct the label, or start the topic operator of the Kafka that it names.",
		kafkamodel.ClusterLabel, now, kafka, shown(cmp.Or(topic.Status.TopicName, Name(topic))), kafka)}}
}

// HasDeparted reports whether a topic operator has said so in a status.
func HasDeparted(status kafkav1.KafkaTopicStatus) bool {
	return !HasBegun(status, Remark{Reason: ClusterLabelChanged})
}
