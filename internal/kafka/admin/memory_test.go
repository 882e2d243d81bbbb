package admin_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

// grown is how many bytes are allocated while something is done, and how many of them are
// kept as long as what it returns.
func grown[T any](do func() T) (allocated, kept uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	result := do()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(result)
	return after.TotalAlloc - before.TotalAlloc, max(after.HeapAlloc, before.HeapAlloc) - before.HeapAlloc
}

// endless is a broker with partitions that never end, in pages as long as they may be.
func endless() func(kmsg.Request) kmsg.Response {
	partitions := make([]kmsg.DescribeTopicPartitionsResponseTopicPartition, 40_000)
	for i := range partitions {
		partitions[i].Partition = int32(i)
	}
	full := page(&kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: "t"}, topic("t", 0, partitions...))
	return func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			return full
		case *kmsg.DescribeConfigsRequest:
			return settings(r, 0)
		default:
			return nil
		}
	}
}

func TestABrokerCannotFillTheMemoryWithPartitions(t *testing.T) {
	const bytes = 8 << 20
	k := script{"b0:9091": endless()}.open(t, []string{"b0:9091"}, nil, func(o *admin.Options) { o.PartitionBytes = bytes })
	var err error
	_, kept := grown(func() error {
		_, err = k.Partitions(t.Context())
		return err
	})
	if memory, is := errors.AsType[*admin.MemoryError](err); !is || memory.Bytes != bytes {
		t.Errorf("error %v, want a MemoryError", err)
	}
	if kept > 1<<20 {
		t.Errorf("%d KiB are kept of an answer that was refused", kept>>10)
	}
}

func TestPartitionsThatFitTakeNoMoreThanTheyMay(t *testing.T) {
	const bytes, most = 16 << 20, 80_000
	partitions := make([]kmsg.DescribeTopicPartitionsResponseTopicPartition, 1000)
	for i := range partitions {
		partitions[i] = partition(int32(i), 0, 1)
	}
	pages := 0
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			if pages++; pages*len(partitions) < most {
				return page(&kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: "t", Partition: 1}, topic("t", 0, partitions...))
			}
			return page(nil, topic("t", 0, partitions...))
		case *kmsg.DescribeConfigsRequest:
			return settings(r, 0)
		default:
			return nil
		}
	}}.open(t, []string{"b0:9091"}, nil, func(o *admin.Options) { o.PartitionBytes = bytes })
	_, kept := grown(func() []admin.Partition {
		list, err := k.Partitions(t.Context())
		if err != nil || len(list) != most {
			t.Errorf("%d partitions, %v; want %d", len(list), err, most)
		}
		return list
	})
	if kept > bytes*3/4 { // one copy of the list, with some room that a slice has grown by
		t.Errorf("%d partitions take %d KiB, more than half of the %d that they and their copy may", most, kept>>10, bytes>>10)
	}
}

// raw is an answer of any bytes, to a request that has the kind.
type raw struct {
	kmsg.Response

	body []byte
}

func (r raw) AppendTo(to []byte) []byte { return append(to, r.body...) }

// announcing is an answer that ends where it announces that nearly a million things
// follow, of which there is a byte each.
func announcing(kind kmsg.Response, before ...[]byte) kmsg.Response {
	body := slices.Concat(before...)
	body = binary.AppendUvarint(body, 900_001)
	return raw{kind, append(body, make([]byte, 900_000)...)}
}

func TestNoRoomIsMadeForWhatIsOnlyAnnounced(t *testing.T) {
	throttle, topic := make([]byte, 4), slices.Concat([]byte{2, 0, 0, 2, 't'}, make([]byte, 17))
	for name, c := range map[string]struct {
		partitions, settings kmsg.Response
	}{
		"topics":     {partitions: announcing(kmsg.NewPtrDescribeTopicPartitionsResponse(), throttle)},
		"partitions": {partitions: announcing(kmsg.NewPtrDescribeTopicPartitionsResponse(), throttle, topic)},
		"replicas":   {partitions: announcing(kmsg.NewPtrDescribeTopicPartitionsResponse(), throttle, topic, []byte{2}, make([]byte, 14))},
		"settings":   {settings: announcing(kmsg.NewPtrDescribeConfigsResponse(), throttle)},
		"values of a setting": {
			settings: announcing(kmsg.NewPtrDescribeConfigsResponse(), throttle, []byte{2, 0, 0, 0, 2, 2, 't'}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
				switch req.(type) {
				case *kmsg.DescribeTopicPartitionsRequest:
					return cmp.Or(c.partitions, page(nil, topicNamed("t")))
				case *kmsg.DescribeConfigsRequest:
					return c.settings
				default:
					return nil
				}
			}}.open(t, []string{"b0:9091"}, nil)
			allocated, _ := grown(func() error {
				partitions, err := k.Partitions(t.Context())
				if err == nil {
					t.Errorf("%d partitions were read", len(partitions))
				}
				return nil
			})
			if allocated > 32<<20 { // the answer in the buffers of both sides, and what there is of it
				t.Errorf("%d MiB were allocated", allocated>>20)
			}
		})
	}
}

func topicNamed(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	return topic(name, 0, partition(0, 1))
}

func TestAnswersAreNoLongerThanWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer kmsg.Response
		ask    func(*admin.Kafka) error
	}{
		"brokers": {
			func() kmsg.Response {
				resp := kmsg.NewPtrDescribeClusterResponse()
				resp.Brokers = make([]kmsg.DescribeClusterResponseBroker, 9_000)
				return resp
			}(),
			func(k *admin.Kafka) error { _, err := k.Cluster(t.Context()); return err },
		},
		"voters": {
			func() kmsg.Response {
				resp := kmsg.NewPtrDescribeQuorumResponse()
				resp.Topics = []kmsg.DescribeQuorumResponseTopic{{Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
					CurrentVoters: make([]kmsg.DescribeQuorumResponseTopicPartitionReplicaState, 5_000),
				}}}}
				return resp
			}(),
			func(k *admin.Kafka) error { _, err := k.Quorum(t.Context()); return err },
		},
		"features": {
			func() kmsg.Response {
				resp := kmsg.NewPtrApiVersionsResponse()
				resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 9_000)
				return resp
			}(),
			func(k *admin.Kafka) error { _, err := k.Features(t.Context()); return err },
		},
		"a name": {
			page(nil, topicNamed(strings.Repeat("t", 2<<20))),
			func(k *admin.Kafka) error { _, err := k.Partitions(t.Context()); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := script{"b0:9091": func(kmsg.Request) kmsg.Response { return c.answer }}.open(t, []string{"b0:9091"}, nil)
			if err := c.ask(k); err == nil || !strings.Contains(err.Error(), "implausibly large") {
				t.Errorf("error %v, want that the answer is too large", err)
			}
		})
	}
}

func TestWhoeverIsSilentIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	k := script{"b4:9091": func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID = "of the cluster"
		return resp
	}}.open(t, []string{"b0:9091", "b1:9091", "b2:9091", "b3:9091", "b4:9091", "b5:9091"}, nil, func(o *admin.Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "b4:9091" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
	})
	cluster, err := k.Cluster(t.Context())
	if err != nil || cluster.ID != "of the cluster" {
		t.Errorf("cluster %+v, %v; want the answer of the only one who gives any", cluster, err)
	}
}

func TestABrokerThatEndsConnectionsLeavesTheQuestionToAnother(t *testing.T) {
	t.Parallel()
	answering := func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID = "of the cluster"
		return resp
	}
	silent := func(kmsg.Request) kmsg.Response { return nil }
	for first := range 2 {
		k := script{"b0:9091": silent, "b1:9091": answering}.open(t, []string{"b0:9091", "b1:9091"}, nil, func(o *admin.Options) {
			o.Now = func() time.Time { return time.Now().Truncate(2 * time.Second).Add(time.Duration(first) * time.Second) }
		})
		if cluster, err := k.Cluster(t.Context()); err != nil || cluster.ID != "of the cluster" {
			t.Errorf("cluster %+v, %v; want the answer of the one who gives any", cluster, err)
		}
	}
	k := script{"b0:9091": silent}.open(t, []string{"b0:9091"}, nil)
	_, err := k.Cluster(t.Context())
	if _, refused := errors.AsType[*admin.RefusedError](err); !refused {
		t.Errorf("error %v, want a RefusedError of those who end every connection", err)
	}
}
