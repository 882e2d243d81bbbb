package model

import (
	"fmt"

	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// fewestReplicas is how many replicas a partition has, or is to have; zero where Kafka decides that when it creates the topic.
func (o Observed) fewestReplicas() int64 {
	switch {
	case o.Held != nil:
		return int64(o.Held.Fewest)
	case o.Topic.Spec.Replicas != nil:
		return int64(*o.Topic.Spec.Replicas)
	default:
		return 0
	}
}

// warnOfMinimum tells of a topic that asks for more replicas in sync than a partition has. Brokers ask for as many as there are then
// (tried with 3.9.2 and 4.3.0).
func (d *Decision) warnOfMinimum(factor int64) {
	if factor == 0 || d.minimum <= factor {
		return
	}
	d.warn(Remark{InvalidConfig, fmt.Sprintf("%s is %d, and each partition has %s: Kafka asks for as many as there are, so that "+
		"producers with acks=all are refused while one of them is away. Set %s in spec.config to at most %d.",
		topics.MinInSync, d.minimum, counted(factor, "replica", "replicas"), topics.MinInSync, max(1, factor-1))})
}

// warnOfSegments tells of a topic with which no broker of Kafka 4 starts: Kafka 3.9 takes it, and an upgrade would end there.
func (o Observed) warnOfSegments(d *Decision) {
	bytes, isSet := topics.Integer(o.wantedConfig()[topics.SegmentBytes])
	if !isSet || bytes >= topics.SmallestSegment {
		return
	}
	d.warn(Remark{InvalidConfig, fmt.Sprintf("%s is %d. Brokers of Kafka 4.0 and later do not start while a topic has less than %d. "+
		"Raise it in spec.config before the Kafka is upgraded.", topics.SegmentBytes, bytes, topics.SmallestSegment)})
}
