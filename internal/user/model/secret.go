package model

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
)

// operatorName is the value of the labels that name the operator of a user's Secret, as in Strimzi.
const operatorName = "strimzi-user-operator"

// maxLabel is the longest value of a label.
const maxLabel = 63

// IsOwned reports whether a Secret is the user's: it names the user as its owner, or it has no owner and the
// labels of the user's Secret, as one has that was restored from a backup.
func IsOwned(secret *corev1.Secret, user *kafkav1.KafkaUser) bool {
	if len(secret.OwnerReferences) > 0 {
		return slices.ContainsFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == user.UID })
	}
	labels := secret.Labels
	return labels[kafkamodel.KindLabel] == kafkav1.KindKafkaUser && labels[kafkamodel.ClusterLabel] == user.Labels[kafkamodel.ClusterLabel]
}

// Secret renders the Secret of a user, which has a name of its own.
func Secret(user *kafkav1.KafkaUser, name string, data map[string][]byte) *coreac.SecretApplyConfiguration {
	secret := coreac.Secret(name, user.Namespace).
		WithType(corev1.SecretTypeOpaque).
		WithLabels(SecretLabels(user)).
		WithOwnerReferences(metaac.OwnerReference().
			WithAPIVersion(kafkav1.GroupVersion.String()).WithKind(kafkav1.KindKafkaUser).
			WithName(user.Name).WithUID(user.UID).WithController(false).WithBlockOwnerDeletion(false)).
		WithData(data)
	if annotations := withoutOwnKeys(template(user).Annotations); len(annotations) > 0 {
		secret.WithAnnotations(annotations)
	}
	return secret
}

// Served answers the request for another certificate in the write that stores it, so that the next look does not find it
// again. The annotation belongs to the operator then, and goes with the next write.
func Served(secret *coreac.SecretApplyConfiguration) *coreac.SecretApplyConfiguration {
	return secret.WithAnnotations(map[string]string{authorities.ForceRenewAnnotation: "false"})
}

// SecretLabels are those of the user, what its template adds, and those that tell whose Secret it is, which win.
func SecretLabels(user *kafkav1.KafkaUser) map[string]string {
	labels := withoutOwnKeys(template(user).Labels)
	for key, value := range user.Labels {
		if !kafkamodel.ExcludedLabel(key) {
			labels[key] = value
		}
	}
	maps.Copy(labels, map[string]string{
		kafkamodel.KindLabel:           kafkav1.KindKafkaUser,
		kafkamodel.ClusterLabel:        user.Labels[kafkamodel.ClusterLabel],
		"app.kubernetes.io/name":       operatorName,
		"app.kubernetes.io/managed-by": operatorName,
		"app.kubernetes.io/instance":   labelValue(user.Name),
		"app.kubernetes.io/part-of":    labelValue("strimzi-" + user.Name),
	})
	return labels
}

func template(user *kafkav1.KafkaUser) kafkav1.MetadataTemplate {
	if t := user.Spec.Template; t != nil && t.Secret != nil && t.Secret.Metadata != nil {
		return *t.Secret.Metadata
	}
	return kafkav1.MetadataTemplate{}
}

// withoutOwnKeys leaves out the keys by which people and operators speak to each other: a request such as
// force-renew in a template would be repeated with every write.
func withoutOwnKeys(values map[string]string) map[string]string {
	kept := make(map[string]string, len(values))
	for key, value := range values {
		if !authorities.OwnKey(key) {
			kept[key] = value
		}
	}
	return kept
}

func labelValue(text string) string {
	if len(text) > maxLabel {
		text = text[:maxLabel]
	}
	return strings.TrimRight(text, ".-_")
}
