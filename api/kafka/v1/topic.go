package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// KafkaTopic is a topic of the Kafka cluster that its label strimzi.io/cluster names.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkatopics,singular=kafkatopic,shortName=kt,categories=strimzi,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.strimzi\.io/cluster`,description="The name of the Kafka cluster this topic belongs to"
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.spec.partitions`,description="The desired number of partitions in the topic"
// +kubebuilder:printcolumn:name="Replication factor",type=integer,JSONPath=`.spec.replicas`,description="The desired number of replicas of each partition"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The state of the custom resource"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When it was created"
type KafkaTopic struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the topic as it should be.
	// +optional
	Spec KafkaTopicSpec `json:"spec,omitzero"`
	// status is the topic as the topic operator last saw it.
	// +optional
	Status KafkaTopicStatus `json:"status,omitzero"`
}

// KafkaTopicList is a list of KafkaTopic.
//
// +kubebuilder:object:root=true
type KafkaTopicList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []KafkaTopic `json:"items"`
}

// KafkaTopicSpec is the topic as it should be.
type KafkaTopicSpec struct {
	// topicName is the name of the topic in Kafka, which cannot be changed. Unset means metadata.name.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	TopicName string `json:"topicName,omitempty"`
	// partitions of the topic, of which there cannot be fewer later. Unset means what num.partitions of the brokers says.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Partitions *int32 `json:"partitions,omitempty"`
	// replicas of each partition. Unset means what default.replication.factor of the brokers says.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32767
	Replicas *int32 `json:"replicas,omitempty"`
	// config holds settings of the topic by name. Those that are not named here have the defaults of the brokers.
	// +optional
	// +kubebuilder:validation:MaxProperties=1024
	Config TopicConfig `json:"config,omitempty"`
}

// TopicConfig holds settings of a topic by name.
type TopicConfig map[string]TopicConfigValue

// UnmarshalJSON reads a JSON object of which each value may be of any type, as Config does.
func (c *TopicConfig) UnmarshalJSON(data []byte) error {
	var values map[string]TopicConfigValue
	if err := json.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("reading settings of a topic: %w", err)
	}
	*c = values
	return nil
}

// TopicConfigValue is the value of a setting of a topic as Kafka has it. In JSON it may be a string, a number, a boolean
// or a list, whose elements are joined with commas. An object, which no setting has, becomes its JSON text.
//
// +kubebuilder:validation:Schemaless
// +kubebuilder:pruning:PreserveUnknownFields
type TopicConfigValue string

// UnmarshalJSON reads any JSON value as described at the type. The error is about malformed JSON only.
func (v *TopicConfigValue) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	var elements []ConfigValue
	if len(data) > 0 && data[0] == '[' {
		if err := json.Unmarshal(data, &elements); err != nil {
			return fmt.Errorf("reading a list of a topic's setting: %w", err)
		}
		texts := make([]string, 0, len(elements))
		for _, element := range elements {
			texts = append(texts, string(element))
		}
		*v = TopicConfigValue(strings.Join(texts, ","))
		return nil
	}
	var value ConfigValue
	if err := value.UnmarshalJSON(data); err != nil {
		return err
	}
	*v = TopicConfigValue(value)
	return nil
}

// KafkaTopicStatus is the topic as the topic operator last saw it.
type KafkaTopicStatus struct {
	// conditions: Ready, Unmanaged or ReconciliationPaused, any number of Warning, and Reconciling or Stalled while it is
	// not ready.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// topicName is the name of the topic in Kafka.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	TopicName string `json:"topicName,omitempty"`
	// topicId is the identifier of the topic in Kafka: one that is made anew under the same name has another.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TopicID string `json:"topicId,omitempty"`
}
