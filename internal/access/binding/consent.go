package binding

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// ConsentAnnotation lists, on a Kafka or a KafkaUser, the namespaces whose KafkaAccesses may refer to it, with commas
// between; * stands for all.
const ConsentAnnotation = "keyturn.dev/access-from"

// Consents reports whether an object lets KafkaAccesses of a namespace refer to it.
func Consents(object metav1.Object, namespace string) bool {
	if object.GetNamespace() == namespace {
		return true
	}
	allowed := strings.Split(object.GetAnnotations()[ConsentAnnotation], ",")
	return slices.ContainsFunc(allowed, func(entry string) bool {
		entry = strings.TrimSpace(entry)
		return entry == namespace || entry == "*"
	})
}

// NotAllowed is the problem of a reference without consent. It does not tell whether the object exists.
func NotAllowed(kind string, object types.NamespacedName, from string) error {
	return &NotReadyError{
		Reason: NamespaceNotAllowed,
		Problem: fmt.Sprintf("%s %s does not exist in namespace %s, or does not allow a KafkaAccess of namespace %s to refer to it.",
			kind, excerpt.Of(object.Name, excerpt.Foreign), excerpt.Of(object.Namespace, excerpt.Value), from),
		Consequence: "The Secret is not written. One that was written from there while it was allowed is deleted.",
		Remedy:      fmt.Sprintf("Add %s to the annotation %s of that %s.", from, ConsentAnnotation, kind),
	}
}

// NotWatched is the problem of a reference to a namespace that the access operator has no rights in.
func NotWatched(namespace string) error {
	return &NotReadyError{
		Reason:  NamespaceNotAllowed,
		Problem: fmt.Sprintf("The access operator does not watch namespace %s.", excerpt.Of(namespace, excerpt.Value)),
		Remedy:  "Add the namespace to watchNamespaces of the chart, or refer to an object in a namespace that is watched.",
	}
}
