package binding

import (
	"cmp"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// Reason is the reason of the condition Ready.
type Reason string

// Reasons of a KafkaAccess that is ready, and of those that are not.
const (
	// Bound says that the Secret has what the application needs.
	Bound Reason = "Bound"
	// Reconciling says that the KafkaAccess has not been looked at before.
	Reconciling Reason = "Reconciling"
	// ReconciliationFailed says that the API server returned an error that has no reason of its own.
	ReconciliationFailed Reason = "ReconciliationFailed"
	// Unauthorized says that the API server did not accept the operator's credentials.
	Unauthorized Reason = "Unauthorized"
	// Forbidden says that the operator lacks a permission.
	Forbidden Reason = "Forbidden"

	// MissingKubernetesResource says that an object does not exist.
	MissingKubernetesResource Reason = "MissingKubernetesResource"
	// InvalidUserKind says that spec.user is not a KafkaUser.
	InvalidUserKind Reason = "InvalidUserKind"
	// NamespaceNotAllowed says that an object in another namespace does not allow to be referenced.
	NamespaceNotAllowed Reason = "NamespaceNotAllowed"
	// UserOfAnotherCluster says that the KafkaUser does not belong to the Kafka cluster.
	UserOfAnotherCluster Reason = "UserOfAnotherCluster"
	// WaitingForKafka says that the Kafka does not report yet where its listener is.
	WaitingForKafka Reason = "WaitingForKafka"
	// WaitingForUser says that the KafkaUser does not report its credentials yet.
	WaitingForUser Reason = "WaitingForUser"
	// IncompleteSecret says that a Secret lacks a key that is copied from it.
	IncompleteSecret Reason = "IncompleteSecret"

	// NoListener says that the Kafka has no listeners.
	NoListener Reason = "NoListener"
	// ListenerNotFound says that the named listener does not exist.
	ListenerNotFound Reason = "ListenerNotFound"
	// ListenerRequired says that a listener cannot be chosen for the user.
	ListenerRequired Reason = "ListenerRequired"
	// IncompatibleListener says that the user cannot authenticate to the listener.
	IncompatibleListener Reason = "IncompatibleListener"
	// TrustUnknown says that it is not known which CA a client of the listener has to trust.
	TrustUnknown Reason = "TrustUnknown"

	// ForeignObject says that the Secret is not owned by this KafkaAccess.
	ForeignObject Reason = "ForeignObject"
	// MadeByAnother says that another access operator writes the Secret.
	MadeByAnother Reason = "MadeByAnother"
	// InvalidSecret says that the API server rejects the Secret.
	InvalidSecret Reason = "InvalidSecret"
)

// consequence is that of a problem without one of its own: what was written before stays.
const consequence = "The Secret is not written."

// NotReadyError is why a KafkaAccess is not ready.
type NotReadyError struct {
	Reason Reason
	// Problem says what is wrong and Remedy what to do about it, each in full sentences.
	Problem, Remedy string
	// Consequence is empty where the Secret is not written and one that exists stays.
	Consequence string
}

// Error is the message of the condition.
func (e *NotReadyError) Error() string {
	return excerpt.Ends(e.Problem+" "+cmp.Or(e.Consequence, consequence)+" "+e.Remedy, maxMessage)
}

// maxMessage keeps a message well below what the API server accepts.
const maxMessage = 8 << 10
