package api_test

import (
	"testing"
)

const minimalTopic = `
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: my-topic, namespace: kafka, labels: {strimzi.io/cluster: my-cluster}}
spec: {partitions: 3, replicas: 3}
`

func TestKafkaTopicRules(t *testing.T) {
	t.Parallel()
	runRules(t, kafkaTopics, minimalTopic, map[string]ruleCase{
		"a minimal manifest is accepted":               {patch: `{}`},
		"a topic without a spec is accepted":           {patch: `spec: null`},
		"an empty spec is accepted":                    {patch: `spec: {partitions: null, replicas: null}`},
		"a name that Kafka takes is accepted":          {patch: `spec: {topicName: My.Topic_1}`},
		"no partition is refused":                      {patch: `spec: {partitions: 0}`, want: []string{"spec.partitions: Invalid value: spec.partitions in body should be greater than or equal to 1"}},
		"no replica is refused":                        {patch: `spec: {replicas: 0}`, want: []string{"spec.replicas: Invalid value: spec.replicas in body should be greater than or equal to 1"}},
		"as many replicas as Kafka takes are accepted": {patch: `spec: {replicas: 32767}`},
		"more replicas than that are refused":          {patch: `spec: {replicas: 32768}`, want: []string{"spec.replicas: Invalid value: spec.replicas in body should be less than or equal to 32767"}},
		"texts, numbers and booleans are settings":     {patch: `spec: {config: {a: "1", b: 1, c: 0.5, d: true, e: ""}}`},
		"a list is a setting":                          {patch: `spec: {config: {cleanup.policy: [compact, delete]}}`},
		"an object is no setting":                      {patch: `spec: {config: {retention.ms: {a: 1}}}`, want: []string{"spec.config.retention.ms: Too many: must have at most 0 items"}},
	})
}
