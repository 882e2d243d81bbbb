package topics

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// MostPartitions is how many a request to Kafka may create. One for more of them fails as a whole, and one that adds many more to a
// topic makes the active controller run out of memory.
const MostPartitions = 10_000

// ID is what Kafka gives a topic when it is created. A topic that is deleted and created again has another one.
type ID [16]byte

// String is the form in which Kafka's tools print an id.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero reports whether it is the id of no topic.
func (id ID) IsZero() bool { return id == ID{} }

// Topic is what Kafka holds of one topic.
type Topic struct {
	ID         ID
	Partitions int32
	// Fewest and Most are the replication factors of its partitions, which differ while replicas are moved.
	Fewest, Most int16
	// Config are the properties that the topic sets, defaults left out.
	Config map[string]string
}

// Equal reports whether two are the same.
func (t Topic) Equal(other Topic) bool {
	return t.ID == other.ID && t.Partitions == other.Partitions && t.Fewest == other.Fewest && t.Most == other.Most &&
		maps.Equal(t.Config, other.Config)
}

// Default leaves the number of partitions, or of replicas, to the brokers.
const Default = -1

// New is a topic to create.
type New struct {
	Name       string
	Partitions int32
	Replicas   int16
	Config     map[string]string
}

// maxName is how many characters the name of a topic can have.
const maxName = 249

// IsName reports whether Kafka takes a text for the name of a topic.
func IsName(name string) bool {
	return len(name) <= maxName && name != "." && name != ".." && regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name)
}

// HoldsState reports whether brokers keep in a topic what groups, transactions and share groups depend on, and find it there by the
// number of its partitions.
func HoldsState(name string) bool {
	return slices.Contains([]string{"__consumer_offsets", "__transaction_state", "__share_group_state"}, name)
}

// IsInternal reports whether a name is one of those that Kafka and its tools give to topics of their own.
func IsInternal(name string) bool { return strings.HasPrefix(name, "__") }
