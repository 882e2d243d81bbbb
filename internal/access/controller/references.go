package controller

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

// kind is a kind of object that a KafkaAccess refers to.
type kind string

const (
	ofKafka  kind = "Kafka"
	ofUser   kind = "KafkaUser"
	ofSecret kind = "Secret"
	// ofAccess are KafkaAccesses of both forms that want the same Secret.
	ofAccess kind = "KafkaAccess"
)

// resource is how roles name objects of the kind.
func (k kind) resource() string {
	if k == ofAccess {
		return "kafkaaccesses"
	}
	return strings.ToLower(string(k)) + "s"
}

// watched is the resource of the kind that is watched; KafkaAccesses are those of a form.
func (k kind) watched(form binding.Form) schema.GroupResource {
	switch k {
	case ofSecret:
		return schema.GroupResource{Resource: k.resource()}
	case ofAccess:
		return schema.GroupResource{Group: form.GroupVersion.Group, Resource: k.resource()}
	default:
		return schema.GroupResource{Group: kafkav1.Group, Resource: k.resource()}
	}
}

// reference names an object that a KafkaAccess is reconciled for.
type reference struct {
	kind kind
	name types.NamespacedName
}

// references remember which objects the last reconcile of each KafkaAccess has read. A KafkaAccess that has not
// been reconciled yet has none and needs none: it is about to read them.
type references struct {
	mu       sync.Mutex
	accesses map[reference]map[types.NamespacedName]bool
	of       map[types.NamespacedName]map[reference]bool
}

func newReferences() *references {
	return &references{
		accesses: map[reference]map[types.NamespacedName]bool{},
		of:       map[types.NamespacedName]map[reference]bool{},
	}
}

// add is called before the object is read.
func (r *references) add(access types.NamespacedName, object reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.accesses[object] == nil {
		r.accesses[object] = map[types.NamespacedName]bool{}
	}
	if r.of[access] == nil {
		r.of[access] = map[reference]bool{}
	}
	r.accesses[object][access], r.of[access][object] = true, true
}

// trim drops all references of a KafkaAccess but those that are kept.
func (r *references) trim(access types.NamespacedName, kept map[reference]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for object := range r.of[access] {
		if _, isKept := kept[object]; isKept {
			continue
		}
		delete(r.of[access], object)
		delete(r.accesses[object], access)
		if len(r.accesses[object]) == 0 {
			delete(r.accesses, object)
		}
	}
	if len(r.of[access]) == 0 {
		delete(r.of, access)
	}
}

// to are the KafkaAccesses that refer to an object.
func (r *references) to(object reference) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.accesses[object]))
}
