package model

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/unattended"
)

// Unattended is what becomes of KafkaTopics at which no topic operator looks.
func Unattended() unattended.Kind {
	return unattended.Kind{
		GroupVersionKind: kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaTopic), Owner: Owner,
		Condition: string(condition.Ready), Status: metav1.ConditionFalse, Message: noTopicOperator,
	}
}

func noTopicOperator(topic metav1.Object) string {
	kafka := topic.GetLabels()[kafkamodel.ClusterLabel]
	if kafka == "" {
		return "The KafkaTopic has no label " + kafkamodel.ClusterLabel + ", so that no topic operator looks at it, and no topic is created or changed. " +
			"Add the label with the name of its Kafka."
	}
	return fmt.Sprintf("No topic operator has looked at this KafkaTopic, and no topic is created or changed. Switch on that of Kafka %s: with spec.entityOperator.topicOperator "+
		"of the Kafka, or with topicOperators in the values of the chart. If it runs, see why it is not ready.", kafka)
}
