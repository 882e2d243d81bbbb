package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

// Lengths of the longest answers that are read in a cluster of up to 256 brokers.
const (
	ofBrokers     = 128 << 10
	ofControllers = 16 << 10
)

// longest is the length of the longest answer to requests of the name.
func longest(name string) int {
	if name == "DescribeQuorum" {
		return ofControllers
	}
	return ofBrokers
}

// header is how long the header of an answer is: the number of the request, and no tags.
const header = 5

// raw is an answer of any bytes, to a request that has the kind.
type raw struct {
	kmsg.Response

	body []byte
}

func (r raw) AppendTo(to []byte) []byte { return append(to, r.body...) }

// asked are the requests whose answers may be long.
func asked() map[string]func(context.Context, *admin.Kafka) error {
	partitions := func(ctx context.Context, k *admin.Kafka) error { _, err := k.Partitions(ctx); return err }
	upgrade := func(ctx context.Context, k *admin.Kafka) error { return k.UpdateMetadataVersion(ctx, 25) }
	return map[string]func(context.Context, *admin.Kafka) error{
		"DescribeCluster":         func(ctx context.Context, k *admin.Kafka) error { _, err := k.Cluster(ctx); return err },
		"DescribeTopicPartitions": partitions,
		"DescribeConfigs":         partitions,
		"DescribeQuorum":          func(ctx context.Context, k *admin.Kafka) error { _, err := k.Quorum(ctx); return err },
		"Metadata":                upgrade,
		"UpdateFeatures":          upgrade,
	}
}

// hostile is a cluster that gives an answer to requests of one name, and good ones to all others.
func hostile(name string, answer kmsg.Response) script {
	answers := func(req kmsg.Request) kmsg.Response {
		if kmsg.NameForKey(req.Key()) == name {
			return answer
		}
		switch req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			return page(nil, topic("t", 0, partition(0, 1)))
		default:
			return metadata()
		}
	}
	return script{"b0:9091": supporting(answers), "c0:9090": answers}
}

func TestAnswersOfBrokersThatAreTooLongAreNotRead(t *testing.T) {
	t.Parallel()
	for name, ask := range asked() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := longest(name)
			long := raw{kindOf(name), make([]byte, limit+1-header)}
			err := ask(t.Context(), hostile(name, long).open(t, []string{"b0:9091"}, []string{"c0:9090"}))
			address := "b0:9091"
			if name == "DescribeQuorum" {
				address = "c0:9090"
			}
			tooLong, ok := errors.AsType[*admin.LongAnswerError](err)
			if !ok || *tooLong != (admin.LongAnswerError{Address: address, Bytes: limit + 1, Limit: limit}) || !strings.Contains(err.Error(), tooLong.Error()) {
				t.Errorf("error %v, want a LongAnswerError of %s", err, address)
			}
		})
	}
}

// kindOf is an empty answer to requests of the name.
func kindOf(name string) kmsg.Response {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.NameForKey(key) == name {
			return kmsg.ResponseForKey(key)
		}
	}
	return nil
}
