package model

import (
	"strings"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// precedes reports whether the first of two KafkaTopics for one topic manages it.
func precedes(a, b *kafkav1.KafkaTopic) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if isKnown, isOther := a.Status.TopicID != "", b.Status.TopicID != ""; isKnown != isOther {
		return isKnown
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) < 0
}
