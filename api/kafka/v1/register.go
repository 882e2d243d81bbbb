package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the package.
	Group = "kafka.strimzi.io"
	// Version is the stored version. The API server also serves v1beta2 with the same schema.
	Version = "v1"
	// KindKafka is the kind of Kafka.
	KindKafka = "Kafka"
	// KindKafkaNodePool is the kind of KafkaNodePool.
	KindKafkaNodePool = "KafkaNodePool"
	// KindKafkaUser is the kind of KafkaUser.
	KindKafkaUser = "KafkaUser"
	// KindKafkaTopic is the kind of KafkaTopic.
	KindKafkaTopic = "KafkaTopic"
)

var (
	// GroupVersion is the group and version that the types belong to.
	GroupVersion = schema.GroupVersion{Group: Group, Version: Version}
	// SchemeGroupVersion is GroupVersion under the name that generated code expects.
	SchemeGroupVersion = GroupVersion
)

// AddToScheme registers the types of the package. Its error is always nil; the form is that of
// every other AddToScheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Kafka{}, &KafkaList{}, &KafkaNodePool{}, &KafkaNodePoolList{}, &KafkaUser{}, &KafkaUserList{}, &KafkaTopic{}, &KafkaTopicList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
