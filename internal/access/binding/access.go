package binding

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
)

// Form is one of the two kinds of KafkaAccess. They differ in how a listener and a user are referred to, and in what
// the Secret holds unless spec.pkcs12 says otherwise.
type Form struct {
	// GroupVersion of the kind.
	GroupVersion schema.GroupVersion
	// Layout of the Secret unless spec.pkcs12 says otherwise.
	Layout Layout
	// groupField is what says of which group the user is, and group its value.
	groupField, group string
}

// Public is the form of the public KafkaAccess operator.
func Public() Form {
	return Form{GroupVersion: accessv1alpha1.GroupVersion, Layout: PEM, groupField: "spec.user.apiGroup", group: kafkav1.Group}
}

// Proposed is the form of Strimzi's proposal 033.
func Proposed() Form {
	return Form{
		GroupVersion: kafkav1beta2.GroupVersion, Layout: Stores,
		groupField: "spec.user.apiVersion", group: kafkav1beta2.GroupVersion.String(),
	}
}

// Access is a KafkaAccess of either form. Its spec and status are written as in the public one.
type Access struct {
	metav1.ObjectMeta

	Form   Form
	Spec   accessv1alpha1.KafkaAccessSpec
	Status accessv1alpha1.KafkaAccessStatus
}

// Key is the name by which the KafkaAccess is reconciled.
func (a *Access) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// OfPublic reads a KafkaAccess of the public form.
func OfPublic(access *accessv1alpha1.KafkaAccess) *Access {
	return &Access{ObjectMeta: access.ObjectMeta, Form: Public(), Spec: access.Spec, Status: access.Status}
}

// OfProposed reads a KafkaAccess of the proposed form.
func OfProposed(access *kafkav1beta2.KafkaAccess) *Access {
	spec := accessv1alpha1.KafkaAccessSpec{
		Kafka: accessv1alpha1.KafkaReference{
			Name: access.Spec.Kafka.Name, Namespace: access.Spec.Kafka.Namespace, TruststoreRef: access.Spec.Kafka.TruststoreRef,
		},
		SecretName: access.Spec.SecretName, Template: access.Spec.Template, PKCS12: access.Spec.PKCS12,
	}
	if listener := access.Spec.Kafka.Listener; listener != nil {
		spec.Kafka.Listener = listener.Name
	}
	if user := access.Spec.User; user != nil {
		spec.User = &accessv1alpha1.KafkaUserReference{
			Kind: user.Kind, APIGroup: groupOf(user.APIVersion), Name: user.Name, Namespace: user.Namespace,
		}
	}
	return &Access{ObjectMeta: access.ObjectMeta, Form: Proposed(), Spec: spec, Status: access.Status}
}

// groupOf is the group of an API version. An unset one is of Strimzi's group.
func groupOf(apiVersion string) string {
	group, _, hasGroup := strings.Cut(cmp.Or(apiVersion, kafkav1beta2.GroupVersion.String()), "/")
	if !hasGroup {
		return ""
	}
	return group
}

// Layout is what the Secret holds.
func (a *Access) Layout() Layout {
	switch {
	case a.Spec.PKCS12 == nil:
		return a.Form.Layout
	case *a.Spec.PKCS12:
		return Stores
	default:
		return PEM
	}
}

// SecretName names the Secret that the KafkaAccess asks for.
func (a *Access) SecretName() string { return cmp.Or(a.Spec.SecretName, a.Name) }

// Older returns the oldest of the others that asks for the same Secret and is older, nil when there is none.
func (a *Access) Older(others []*Access) *Access {
	oldest := a
	for _, other := range others {
		if other.DeletionTimestamp.IsZero() && other.SecretName() == a.SecretName() && other.isOlderThan(oldest) {
			oldest = other
		}
	}
	if oldest == a {
		return nil
	}
	return oldest
}

func (a *Access) isOlderThan(other *Access) bool {
	if !a.CreationTimestamp.Equal(&other.CreationTimestamp) {
		return a.CreationTimestamp.Before(&other.CreationTimestamp)
	}
	return a.UID < other.UID
}
