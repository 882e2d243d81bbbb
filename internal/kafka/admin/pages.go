package admin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
)

// What may be long is asked for in pages, and read straight into what is kept of it: room
// is made for what an answer holds, never for what it announces.

const (
	// pageItems is how many partitions or settings are asked for at a time; Kafka gives no
	// more than 2,000.
	pageItems = 1000
	// itemBytes is more than one of them takes in an answer: the longest name of a topic
	// is 249, and each replica takes 4 in each of five lists.
	itemBytes = 1 << 10
)

// copies is how many times a list of partitions exists while it is handed on.
const copies = 2

// MemoryError says that the partitions of a cluster take more memory than there is for
// them.
type MemoryError struct {
	// Bytes are what there is.
	Bytes int
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the partitions take more than the %d KiB that the operator has for those of one cluster; "+
		"if there are that many, give it more memory", e.Bytes>>10)
}

var errAnswer = errors.New("the answer is not one to what was asked")

// place is where a list of partitions goes on.
type place struct {
	topic     string
	partition int32
}

// list is what is kept of the partitions of a cluster.
type list struct {
	partitions []Partition
	// left is what they may still take, of bytes.
	left, bytes int
}

func newList(bytes int) *list { return &list{left: bytes, bytes: bytes} }

// take accounts for what is about to be kept.
func (l *list) take(bytes int) error {
	if l.left -= bytes * copies; l.left < 0 {
		return &MemoryError{Bytes: l.bytes}
	}
	return nil
}

// readPage adds the partitions of an answer to DescribeTopicPartitions, and returns where
// the next page begins, nil after the last one.
func (l *list) readPage(body []byte) (*place, error) {
	reader := kbin.Reader{Src: body}
	reader.Int32() // throttling
	for left := reader.CompactArrayLen(); left > 0 && reader.Ok(); left-- {
		if err := l.readTopic(&reader); err != nil {
			return nil, err
		}
	}
	var next *place
	if reader.Int8() >= 0 && reader.Ok() {
		next = &place{topic: reader.CompactString(), partition: reader.Int32()}
		wire.SkipTags(&reader)
	}
	return next, reader.Complete()
}

func (l *list) readTopic(reader *kbin.Reader) error {
	failure, name := kerr.ErrorForCode(reader.Int16()), reader.UnsafeCompactNullableString()
	reader.Span(16) // its id
	reader.Bool()   // is it internal?
	topic := ""
	switch {
	case errors.Is(failure, kerr.UnknownTopicOrPartition): // deleted just now
	case failure != nil && name != nil:
		return fmt.Errorf("topic %s: %w", named(*name), failure)
	case failure != nil || name == nil:
		return errors.Join(errAnswer, failure)
	default:
		topic = strings.Clone(*name)
		if err := l.take(len(topic)); err != nil {
			return err
		}
	}
	for left := reader.CompactArrayLen(); left > 0 && reader.Ok(); left-- {
		if err := l.readPartition(reader, topic); err != nil {
			return err
		}
	}
	reader.Int32() // what may be done with it
	wire.SkipTags(reader)
	return reader.Complete()
}

func (l *list) readPartition(reader *kbin.Reader, topic string) error {
	reader.Int16() // repeats what leader and in-sync replicas say
	p := Partition{Topic: topic, Partition: reader.Int32(), Leader: reader.Int32()}
	reader.Int32() // the leader's epoch
	p.Replicas, p.InSync = readIDs(reader), readIDs(reader)
	for range 3 { // eligible leaders, those known last, replicas that are offline
		reader.Span(4 * int(max(0, reader.CompactArrayLen())))
	}
	wire.SkipTags(reader)
	if topic == "" || !reader.Ok() {
		return reader.Complete()
	}
	l.partitions = append(l.partitions, p)
	return l.take(int(unsafe.Sizeof(p)) + 4*(cap(p.Replicas)+cap(p.InSync)))
}

// readIDs reads ids of brokers, and sorts them.
func readIDs(reader *kbin.Reader) []int32 {
	announced := int(max(0, reader.CompactArrayLen()))
	if announced > len(reader.Src)/4 {
		reader.Span(len(reader.Src) + 1) // which is not there: the answer is broken
		return nil
	}
	ids := make([]int32, 0, announced)
	for range announced {
		ids = append(ids, reader.Int32())
	}
	slices.Sort(ids)
	return ids
}

// readMinInSync reads the answer to DescribeConfigs for the setting of the topics, which
// are sorted. One that does not exist any more has none.
func readMinInSync(body []byte, topics []string, into map[string]int) error {
	reader := kbin.Reader{Src: body}
	reader.Int32() // throttling
	for left := reader.CompactArrayLen(); left > 0 && reader.Ok(); left-- {
		failure := kerr.ErrorForCode(reader.Int16())
		reader.UnsafeCompactNullableString() // the failure in words
		reader.Int8()                        // what kind of thing has the name
		topic := reader.UnsafeCompactString()
		value, set := readSetting(&reader)
		wire.SkipTags(&reader)
		i, asked := slices.BinarySearch(topics, topic)
		if errors.Is(failure, kerr.UnknownTopicOrPartition) || !reader.Ok() || !asked {
			continue
		}
		if failure == nil && !set {
			failure = errNoMinInSync
		}
		number, err := strconv.Atoi(value)
		if failure == nil {
			failure = err
		}
		if failure != nil {
			return fmt.Errorf("topic %s: %w", named(topic), failure)
		}
		into[topics[i]] = number
	}
	return reader.Complete()
}

// readSetting reads the settings of one topic, and returns the value of the one that was
// asked for.
func readSetting(reader *kbin.Reader) (value string, set bool) {
	for left := reader.CompactArrayLen(); left > 0 && reader.Ok(); left-- {
		name, v := reader.UnsafeCompactString(), reader.UnsafeCompactNullableString()
		if name == minInSyncKey && v != nil {
			value, set = *v, true
		}
		reader.Span(3) // read-only, source, sensitive
		for synonyms := reader.CompactArrayLen(); synonyms > 0 && reader.Ok(); synonyms-- {
			reader.UnsafeCompactString()
			reader.UnsafeCompactNullableString()
			reader.Int8() // source
			wire.SkipTags(reader)
		}
		reader.Int8()                        // type
		reader.UnsafeCompactNullableString() // documentation
		wire.SkipTags(reader)
	}
	return value, set
}
