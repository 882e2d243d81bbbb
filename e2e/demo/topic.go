package main

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

// Names of the example of a topic.
const (
	topic         = "my-topic"
	topicManifest = "topics/topic.yaml"
)

// withTopics adds a topic operator of the cluster to the values of the chart.
func (d demo) withTopics(values map[string]any) {
	values["topicOperators"] = []map[string]any{{"namespace": namespace, "cluster": cluster}}
}

// createTopic applies the example of a topic and waits until Kafka has it.
func (d demo) createTopic(ctx context.Context) error {
	return d.journal.Step("topic "+topic+" of examples/"+topicManifest+" is created", func() error {
		objects, err := d.kube.Example(topicManifest)
		if err != nil {
			return err
		}
		if err := d.kube.Apply(ctx, namespace, objects); err != nil {
			return err
		}
		return d.kube.Follow(ctx, &kafkav1.KafkaTopicList{}, func(topics harness.Objects) (bool, error) {
			created, found := topics[topic].(*kafkav1.KafkaTopic)
			return found && isReady(created), nil
		}, client.InNamespace(namespace))
	})
}

func isReady(topic *kafkav1.KafkaTopic) bool {
	return topic.Status.ObservedGeneration == topic.Generation && slices.ContainsFunc(topic.Status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.Ready && c.Status == condition.True
	})
}
