package model

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/unattended"
)

// Owner is the field manager of what a user operator applies.
const Owner = "keyturn-user-operator"

// Unattended is what becomes of KafkaUsers at which no user operator looks.
func Unattended() unattended.Kind {
	return unattended.Kind{
		GroupVersionKind: kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaUser), Owner: Owner,
		Condition: string(condition.NotReady), Status: metav1.ConditionTrue, Message: noUserOperator,
	}
}

func noUserOperator(user metav1.Object) string {
	kafka := user.GetLabels()[kafkamodel.ClusterLabel]
	if kafka == "" {
		return "The KafkaUser has no label " + kafkamodel.ClusterLabel + ", so that no user operator looks at it, and it gets no Secret and no rights. " +
			"Add the label with the name of its Kafka."
	}
	return fmt.Sprintf("No user operator has looked at this KafkaUser, and it gets no Secret and no rights. Switch on that of Kafka %s: with spec.entityOperator.userOperator "+
		"of the Kafka, or with userOperators in the values of the chart. If it runs, see why it is not ready.", kafka)
}
