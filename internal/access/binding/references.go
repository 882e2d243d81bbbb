package binding

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
)

// clusterLabel names the Kafka cluster that a KafkaUser belongs to.
const clusterLabel = "strimzi.io/cluster"

// CheckSpec returns a *NotReadyError if the KafkaAccess asks for what is not supported.
func CheckSpec(access *Access) error {
	if wrong := validation.IsDNS1123Subdomain(access.SecretName()); len(wrong) > 0 {
		return Rejected(access.SecretName(), errors.New(wrong[0]))
	}
	user := access.Spec.User
	if user == nil || user.Kind == kafkav1.KindKafkaUser && user.APIGroup == kafkav1.Group {
		return nil
	}
	return &NotReadyError{
		Reason: InvalidUserKind,
		Problem: fmt.Sprintf("spec.user is of kind %s in group %s, which is not supported.",
			excerpt.Of(user.Kind, excerpt.Value), excerpt.Of(user.APIGroup, excerpt.Value)),
		Remedy: fmt.Sprintf("Set spec.user.kind to %s and %s to %s.", kafkav1.KindKafkaUser, access.Form.groupField, access.Form.group),
	}
}

// CheckUser returns a *NotReadyError if the KafkaUser does not belong to the Kafka cluster: its label names a cluster of
// its own namespace.
func CheckUser(user *kafkav1.KafkaUser, kafka ObjectName) error {
	cluster := user.Labels[clusterLabel]
	if cluster == kafka.Name && user.Namespace == kafka.Namespace {
		return nil
	}
	what := fmt.Sprintf("KafkaUser %s belongs to Kafka %s of namespace %s, and not to Kafka %s of namespace %s.",
		user.Name, excerpt.Of(cluster, excerpt.Foreign), user.Namespace, kafka.Name, kafka.Namespace)
	if cluster == "" {
		what = fmt.Sprintf("KafkaUser %s has no label %s.", user.Name, clusterLabel)
	}
	return &NotReadyError{
		Reason: UserOfAnotherCluster, Problem: what,
		Remedy: fmt.Sprintf("Set spec.user to a KafkaUser of namespace %s with the label %s=%s.", kafka.Namespace, clusterLabel, kafka.Name),
	}
}

// CredentialsSecret names the Secret with the credentials of a KafkaUser, and is empty where it has none.
// The error is a *NotReadyError.
func CredentialsSecret(user *kafkav1.KafkaUser) (string, error) {
	switch UserOf(user) {
	case Anonymous, Unauthenticated, TLSExternal:
		return "", nil
	case TLS:
		if user.Status.Secret != "" {
			return user.Status.Secret, nil
		}
		return "", waitingForUser(user, "status.secret")
	default:
		if user.Status.Secret == "" {
			return "", waitingForUser(user, "status.secret")
		}
		if user.Status.Username == "" {
			return "", waitingForUser(user, "status.username")
		}
		return user.Status.Secret, nil
	}
}

func waitingForUser(user *kafkav1.KafkaUser, field string) error {
	return &NotReadyError{
		Reason:  WaitingForUser,
		Problem: fmt.Sprintf("KafkaUser %s does not have %s yet.", user.Name, field),
		Remedy:  "Wait until the KafkaUser is Ready. If this lasts, see its conditions and whether a user operator is running.",
	}
}

// Bootstrap returns where a client finds the listener. The error is a *NotReadyError.
func Bootstrap(kafka *kafkav1.Kafka, listener string) (string, error) {
	if isBeingCreated(kafka) {
		return "", &NotReadyError{
			Reason:  WaitingForKafka,
			Problem: fmt.Sprintf("Kafka %s is being created.", kafka.Name),
			Remedy:  "Wait until the Kafka is Ready. If this lasts, see its conditions.",
		}
	}
	for i := range kafka.Status.Listeners {
		status := &kafka.Status.Listeners[i]
		if status.Name == listener && status.BootstrapServers != "" {
			return status.BootstrapServers, nil
		}
	}
	return "", &NotReadyError{
		Reason:  WaitingForKafka,
		Problem: fmt.Sprintf("Kafka %s does not report the bootstrap servers of listener %s in status.listeners yet.", kafka.Name, listener),
		Remedy:  "Wait until the Kafka is Ready. If this lasts, see its conditions.",
	}
}

// isBeingCreated tells a Kafka that has never been ready. One that was ready keeps its address when it is not.
func isBeingCreated(kafka *kafkav1.Kafka) bool {
	return slices.ContainsFunc(kafka.Status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.NotReady && c.Reason == kafkamodel.ReasonCreating
	})
}

// Missing is the problem of an object that does not exist.
func Missing(kind, namespace, name, field string) error {
	return &NotReadyError{
		Reason:  MissingKubernetesResource,
		Problem: fmt.Sprintf("%s %s does not exist in namespace %s.", kind, excerpt.Of(name, excerpt.Foreign), namespace),
		Remedy:  fmt.Sprintf("Create it, or correct %s.", field),
	}
}

// Rejected is the problem of a Secret that the API server does not accept.
func Rejected(secret string, why error) error {
	return &NotReadyError{
		Reason:  InvalidSecret,
		Problem: fmt.Sprintf("Secret %s is invalid: %s.", excerpt.Of(secret, excerpt.Value), excerpt.Of(why.Error(), excerpt.Foreign)),
		Remedy:  "Correct spec.secretName and spec.template. If the Secret exists and is immutable, delete it.",
	}
}
