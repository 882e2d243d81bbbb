package binding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
)

// Owner is the field owner of everything that the access operator writes.
const Owner = "keyturn-access-operator"

// The label of Secrets that an access operator has written, this one or the public one.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "kafka-access-operator"
)

// secretType is the one that the Service Binding specification asks for.
const secretType = corev1.SecretType("servicebinding.io/kafka")

// Secret returns what the Secret of a KafkaAccess has to be. source is the value of its annotation.
func Secret(access *Access, source string, data map[string][]byte) *corev1ac.SecretApplyConfiguration {
	template := templateOf(access)
	labels := without(template.Labels)
	labels[ManagedByLabel] = ManagedBy
	annotations := without(template.Annotations)
	annotations[SourceAnnotation] = source
	return corev1ac.Secret(access.SecretName(), access.Namespace).
		WithLabels(labels).
		WithAnnotations(annotations).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(access.Form.GroupVersion.String()).
			WithKind(accessv1alpha1.KindKafkaAccess).
			WithName(access.Name).
			WithUID(access.UID).
			WithController(false).
			WithBlockOwnerDeletion(false)).
		WithType(secretType).
		WithData(data)
}

func templateOf(access *Access) accessv1alpha1.MetadataTemplate {
	template := access.Spec.Template
	if template == nil || template.Secret == nil || template.Secret.Metadata == nil {
		return accessv1alpha1.MetadataTemplate{}
	}
	return *template.Secret.Metadata
}

// without leaves out the keys by which operators find their objects.
func without(values map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range values {
		isReserved := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if !slices.ContainsFunc([]string{"strimzi.io/", "keyturn.dev/", "cert-manager.io/"}, isReserved) {
			kept[key] = value
		}
	}
	return kept
}

// IsOwn reports whether this operator has written the Secret for the KafkaAccess.
func IsOwn(secret *corev1.Secret, access *Access) bool {
	return isWrittenHere(secret) && IsOwner(access, secret)
}

// IsOwner reports whether an object names the KafkaAccess as an owner.
func IsOwner(access *Access, object metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == access.UID })
}

func isWrittenHere(secret *corev1.Secret) bool {
	return slices.ContainsFunc(secret.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == Owner && entry.Subresource == ""
	})
}

// CheckOwner returns a *NotReadyError if the Secret that exists belongs to others.
func CheckOwner(secret *corev1.Secret, access *Access) error {
	switch {
	case IsOwn(secret, access):
		return nil
	case isWrittenHere(secret) && len(secret.OwnerReferences) > 0:
		owner := secret.OwnerReferences[0]
		return taken(secret.Name, fmt.Sprintf("Secret %s was written before for KafkaAccess %s of %s.", secret.Name, owner.Name, owner.APIVersion))
	case !isWrittenHere(secret) && secret.Labels[ManagedByLabel] == ManagedBy:
		return &NotReadyError{
			Reason:  MadeByAnother,
			Problem: fmt.Sprintf("Secret %s is written by another access operator.", secret.Name),
			Remedy:  "Stop the other operator for this KafkaAccess and delete the Secret, or set spec.secretName to another name.",
		}
	default:
		return &NotReadyError{
			Reason:  ForeignObject,
			Problem: fmt.Sprintf("Secret %s is not owned by this KafkaAccess.", secret.Name),
			Remedy:  "Set spec.secretName to another name. Delete the Secret only if nothing else uses it.",
		}
	}
}

// CheckOlder returns a *NotReadyError if one of the others is older and asks for the same Secret.
func CheckOlder(access *Access, others []*Access) error {
	older := access.Older(others)
	if older == nil {
		return nil
	}
	return taken(access.SecretName(), fmt.Sprintf("KafkaAccess %s of %s, which is older, asks for Secret %s, too.",
		older.Name, older.Form.GroupVersion, access.SecretName()))
}

func taken(secret, what string) error {
	return &NotReadyError{
		Reason: ForeignObject, Problem: what,
		Remedy: fmt.Sprintf("Set spec.secretName of one of them to another name than %s.", secret),
	}
}

// Precisely returns the intent for exactly the Secret that was observed.
func Precisely(secret *corev1.Secret, intent *corev1ac.SecretApplyConfiguration) *corev1ac.SecretApplyConfiguration {
	return intent.WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion)
}
