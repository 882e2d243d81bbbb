package finalizers

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/kafka/model"
)

// Kind is the finalizers of one kind of object. Its text is one that names no Kafka: it is that of the label.
type Kind string

// The kinds.
const (
	Users  Kind = "keyturn.dev/kafka-user"
	Topics Kind = "keyturn.dev/kafka-topic"
)

// Of is the finalizer that names a Kafka.
func (k Kind) Of(kafka string) string { return kafka + k.suffix() }

// suffix follows the name of a Kafka.
func (k Kind) suffix() string { return "." + string(k) }

// KeptFor are the Kafkas that may hold something for an object. The empty name is that of none.
func (k Kind) KeptFor(object metav1.Object) []string {
	var kafkas []string
	for _, finalizer := range object.GetFinalizers() {
		if kafka, is := k.named(object, finalizer); is && !slices.Contains(kafkas, kafka) {
			kafkas = append(kafkas, kafka)
		}
	}
	return kafkas
}

// IsKeptFor reports whether a Kafka may hold something for an object.
func (k Kind) IsKeptFor(object metav1.Object, kafka string) bool {
	return slices.Contains(k.KeptFor(object), kafka)
}

// KeepFor puts the finalizer of a Kafka on an object in memory, and reports whether that changed anything.
func (k Kind) KeepFor(object metav1.Object, kafka string) bool {
	if slices.Contains(object.GetFinalizers(), k.Of(kafka)) {
		return false
	}
	k.LetGo(object, kafka)
	object.SetFinalizers(append(object.GetFinalizers(), k.Of(kafka)))
	return true
}

// LetGo removes what keeps an object in memory for a Kafka, and reports whether there was anything.
func (k Kind) LetGo(object metav1.Object, kafka string) bool {
	before := object.GetFinalizers()
	left := slices.DeleteFunc(slices.Clone(before), func(finalizer string) bool {
		of, is := k.named(object, finalizer)
		return is && of == kafka
	})
	object.SetFinalizers(left)
	return len(left) < len(before)
}

// named is the Kafka that a finalizer is about, and whether it is about one.
func (k Kind) named(object metav1.Object, finalizer string) (string, bool) {
	if finalizer == string(k) {
		return object.GetLabels()[model.ClusterLabel], true
	}
	return strings.CutSuffix(finalizer, k.suffix())
}
