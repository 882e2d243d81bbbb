package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// isTrue is how annotations and labels say yes.
const isTrue = "true"

// ownerReferences make an object go when the Kafka goes.
func ownerReferences(kafka *kafkav1.Kafka) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion:         kafkav1.GroupVersion.String(),
		Kind:               kafkav1.KindKafka,
		Name:               kafka.Name,
		UID:                kafka.UID,
		Controller:         new(false),
		BlockOwnerDeletion: new(true),
	}}
}

func ownerReference(kafka *kafkav1.Kafka) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().
		WithAPIVersion(kafkav1.GroupVersion.String()).
		WithKind(kafkav1.KindKafka).
		WithName(kafka.Name).
		WithUID(kafka.UID).
		WithController(false).
		WithBlockOwnerDeletion(true)
}

func owners(kafka *kafkav1.Kafka) []types.UID { return []types.UID{kafka.UID} }
