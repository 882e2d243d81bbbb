package binding

import (
	"cmp"
	"encoding/json"
	"fmt"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
)

// SourceAnnotation holds what a Secret was written from. It is in the Secret because both must change in one write.
const SourceAnnotation = "keyturn.dev/source"

// ObjectName is the name of an object, as the annotation has it.
type ObjectName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Source is what a Secret is written from.
type Source struct {
	Kafka ObjectName `json:"kafka"`
	// Listener is empty where one is still to be chosen.
	Listener string `json:"listener,omitempty"`
	// Truststore is nil where the listener says which CAs a client has to trust.
	Truststore *accessv1alpha1.TruststoreReference `json:"truststore,omitempty"`
	// User is nil where no credentials are asked for.
	User *ObjectName `json:"user,omitempty"`
}

// Asked is the source that the spec asks for.
func (a *Access) Asked() Source {
	source := Source{
		Kafka:      ObjectName{Namespace: cmp.Or(a.Spec.Kafka.Namespace, a.Namespace), Name: a.Spec.Kafka.Name},
		Listener:   a.Spec.Kafka.Listener,
		Truststore: a.Spec.Kafka.TruststoreRef,
	}
	if user := a.Spec.User; user != nil {
		source.User = &ObjectName{Namespace: cmp.Or(user.Namespace, a.Namespace), Name: user.Name}
	}
	return source
}

// Text is the value of the annotation.
func (s Source) Text() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding what a Secret is written from: %w", err)
	}
	return string(text), nil
}

// SourceOf returns what a Secret was written from, and whether that is known. The annotations are those that the
// operator has applied: what others write there is not believed.
func SourceOf(applied map[string]string) (Source, bool) {
	var source Source
	err := json.Unmarshal([]byte(applied[SourceAnnotation]), &source)
	return source, err == nil && source.Kafka.Name != "" && source.Kafka.Namespace != ""
}
