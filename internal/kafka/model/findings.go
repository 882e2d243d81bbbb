package model

import (
	"github.com/keyturn/keyturn/internal/excerpt"
)

// Reasons of findings. They are the condition reasons that people know from
// Strimzi, wherever Strimzi has one.
const (
	// ReasonInvalidResource is the reason of every error: the resources as
	// written cannot be built.
	ReasonInvalidResource = "InvalidResourceException"
	// ReasonStorage warns of storage that loses data or of a storage change
	// that was not made.
	ReasonStorage = "KafkaStorage"
	// ReasonControllerCount warns of an even number of controllers.
	ReasonControllerCount = "KafkaKRaftControllerNodeCount"
	// ReasonControllerSet warns that the controllers of a running cluster
	// cannot be changed, because its quorum is static. The name is Keyturn's.
	ReasonControllerSet = "KafkaKRaftControllerSet"
	// ReasonMinInsyncReplicas warns of min.insync.replicas unset or too high.
	ReasonMinInsyncReplicas = "KafkaMinInsyncReplicas"
	// ReasonDefaultReplicationFactor warns of default.replication.factor unset.
	ReasonDefaultReplicationFactor = "KafkaDefaultReplicationFactor"
	// ReasonInternalTopics warns that Kafka's own topics cannot be created. The
	// name is Keyturn's.
	ReasonInternalTopics = "KafkaInternalTopicReplication"
	// ReasonMetadataVersion warns of a metadata version that stays behind.
	ReasonMetadataVersion = "KafkaMetadataVersion"
	// ReasonForbiddenConfig warns of configuration keys that were dropped.
	// Strimzi only logs them; the name is Keyturn's.
	ReasonForbiddenConfig = "ForbiddenConfig"
	// ReasonScaleDownPrevention warns of nodes that are to leave and may not yet.
	ReasonScaleDownPrevention = "ScaleDownPreventionCheck"
	// ReasonNetworkPolicies warns of peers of a listener that nothing keeps others
	// out for. The name is Keyturn's.
	ReasonNetworkPolicies = "NetworkPoliciesOff"
	// ReasonCreating is that of a Kafka that has never been ready.
	ReasonCreating = "Creating"
	// ReasonIdleAnnotation warns of an annotation that has no effect. The name is
	// Keyturn's.
	ReasonIdleAnnotation = "AnnotationWithoutEffect"
	// ReasonDiffersFromSpec warns of what is asked for and not done. The name is
	// Keyturn's.
	ReasonDiffersFromSpec = "DiffersFromSpec"
	// ReasonNodeIDs warns of an annotation with node ids that cannot be read.
	// Strimzi only logs it; the name is Keyturn's.
	ReasonNodeIDs = "KafkaNodeIds"
)

// Finding is one thing that is wrong or unwise, written for a person.
type Finding struct {
	// Object names the resource, for example "KafkaNodePool kafka/broker".
	Object string
	// Part tells a warning from others about the same object that have its reason, and
	// from an earlier one about another value; empty where there is but one.
	Part string
	// Reason is one of the Reason constants.
	Reason string
	// Message says what is wrong and what to do about it.
	Message string
}

// String puts the object before the message.
func (f Finding) String() string { return f.Object + ": " + f.Message }

// Findings is everything Resolve has to say about its input. With errors the
// cluster must not be touched; warnings accompany a usable cluster.
type Findings struct {
	Errors   []Finding
	Warnings []Finding
}

// Err joins all errors, or returns nil when there is none.
func (f Findings) Err() error {
	if len(f.Errors) == 0 {
		return nil
	}
	return &InvalidResourceError{Findings: f.Errors}
}

// InvalidResourceError is returned for resources that cannot be built as
// written.
type InvalidResourceError struct {
	Findings []Finding
}

// Error lists all findings in one message, as the condition shows them.
func (e *InvalidResourceError) Error() string {
	texts := make([]string, 0, len(e.Findings))
	for _, finding := range e.Findings {
		texts = append(texts, finding.String())
	}
	return excerpt.List(texts, "; ", maxText)
}

// maxText is how many bytes of findings an error tells; the rest is counted.
const maxText = 16 << 10

// Reason is the reason of the condition that reports the error.
func (e *InvalidResourceError) Reason() string { return ReasonInvalidResource }
