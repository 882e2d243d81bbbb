package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe/ledger"
)

const (
	// metadataMinAge lets a client follow a leader that moved as soon as it hears
	// of it: what is measured is the cluster, not the patience of a client.
	metadataMinAge = 100 * time.Millisecond
	retryPause     = 100 * time.Millisecond
	// fetchWait and fetchBytes make a consumer ask twice a second instead of at
	// every record: nothing it counts depends on how soon it reads.
	fetchWait  = 500 * time.Millisecond
	fetchBytes = 1 << 20
	// forgetTopic is longer than any cluster is away: a consumer that forgot its
	// topic would begin again.
	forgetTopic = 24 * time.Hour
	// warmUpKey marks the records that are sent before counting begins.
	warmUpKey = "warm-up"
)

// runner is one client under test: a producer, a consumer and their account.
type runner struct {
	spec       Client
	course     course
	clock      clock.WithTicker
	ledger     *ledger.Ledger
	handshakes *handshakes
	producer   *kgo.Client
	consumer   *kgo.Client

	mu   sync.Mutex
	read map[int32]int64 // the next offset of each partition
	last error           // of the consumer, for the notes
}

func newRunner(spec Client, options Options, course course) (*runner, error) {
	r := &runner{
		spec: spec, course: course, clock: options.Clock,
		handshakes: newHandshakes(),
		read:       course.start(),
	}
	common := spec.options(options.Network, r.dialed)
	producer, err := kgo.NewClient(append(common,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(options.Deadline),
		// A broker that has just started knows no topic yet; only the deadline
		// ends a record.
		kgo.UnknownTopicRetries(-1),
		// A record is given up at its deadline even while the outcome is open:
		// a client that waits for ever would hide a stall.
		kgo.AllowIdempotentProduceCancellation(),
	)...)
	if err != nil {
		return nil, fmt.Errorf("making producer of %s: %w", spec.Kind, err)
	}
	consumer, err := kgo.NewClient(append(common,
		course.consume(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(fetchWait),
		kgo.FetchMinBytes(fetchBytes),
		kgo.ConsiderMissingTopicDeletedAfter(forgetTopic),
	)...)
	if err != nil {
		producer.Close()
		return nil, fmt.Errorf("making consumer of %s: %w", spec.Kind, err)
	}
	r.producer, r.consumer = producer, consumer
	return r, nil
}

// options every client of this identity has in common. dialed hears how each
// connection went.
func (c Client) options(network Network, dialed func(address string, err error)) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(c.Listener.Bootstrap, ",")...),
		kgo.ClientID("keyturn-probe-" + c.name()),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryPause }),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := c.Connect(ctx, network, address)
			dialed(address, err)
			if err != nil {
				return nil, notConnected(err)
			}
			return &dataConn{Conn: conn, refused: func(err error) { dialed(address, err) }}, nil
		}),
	}
	if from, has := c.logsIn(); has && c.Listener.Auth == AuthSCRAM {
		options = append(options, kgo.SASL(scram.Sha512(func(ctx context.Context) (scram.Auth, error) {
			login, err := from(ctx)
			return scram.Auth{User: login.User, Pass: login.Password}, err
		})))
	}
	return options
}

func (r *runner) dialed(address string, err error) {
	r.handshakes.data(nodeOf(address), r.clock.Now(), err)
}

// nodeOf is the first label of an advertised name: the pod's name.
func nodeOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) != nil {
		return address
	}
	pod, _, _ := strings.Cut(host, ".")
	return pod
}

// produceOnceKnown waits until the broker knows the password: Kafka acknowledges a
// new one when its quorum has it, and each broker applies it a moment later.
func (r *runner) produceOnceKnown(ctx context.Context, record *kgo.Record) error {
	ticker := r.clock.NewTicker(retryPause)
	defer ticker.Stop()
	_, logsIn := r.spec.logsIn()
	for {
		err := r.producer.ProduceSync(ctx, record).FirstErr()
		if !logsIn || !errors.Is(err, kerr.SaslAuthenticationFailed) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C():
		}
	}
}

// warmUp waits until every partition took one record, so that the first
// connection of a client is not counted as a gap.
func (r *runner) warmUp(ctx context.Context) error {
	for _, partition := range r.course.partitions {
		record := &kgo.Record{Topic: r.course.topic, Partition: partition, Key: []byte(warmUpKey)}
		if err := r.produceOnceKnown(ctx, record); err != nil {
			return fmt.Errorf("client %s cannot produce on listener %s: %w", r.spec.Kind, r.spec.Listener.Name, err)
		}
	}
	return nil
}

// send produces one record per interval until ctx ends, whether or not the ones
// before were acknowledged. It begins after the offset.
func (r *runner) send(ctx context.Context, offset, interval time.Duration) {
	if !pass(ctx, r.clock, offset) {
		return
	}
	ticker := r.clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			// Not ctx: records that are under way when sending ends still count.
			r.produce(context.WithoutCancel(ctx))
		}
	}
}

func (r *runner) produce(ctx context.Context) {
	seq := r.ledger.Sent(r.clock.Now())
	record := &kgo.Record{
		Topic:     r.course.topic,
		Partition: r.course.partitionOf(seq),
		Value:     encodeRecord(r.spec.Kind, seq),
	}
	r.producer.Produce(ctx, record, func(record *kgo.Record, err error) {
		if err != nil {
			r.ledger.Failed(seq, err.Error())
			return
		}
		r.ledger.Acknowledged(seq, record.Partition, r.clock.Now())
	})
}

// receive consumes until the consumer is closed.
func (r *runner) receive(ctx context.Context) {
	for {
		fetches := r.consumer.PollFetches(ctx)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { r.trouble(err) })
		fetches.EachRecord(r.received)
	}
}

func (r *runner) received(record *kgo.Record) {
	r.mu.Lock()
	r.read[record.Partition] = record.Offset + 1
	r.mu.Unlock()
	if string(record.Key) == warmUpKey {
		return
	}
	if r.course.shared && !strings.HasPrefix(string(record.Value), r.spec.Kind+" ") {
		return
	}
	seq, err := decodeRecord(r.spec.Kind, record.Value)
	if err != nil {
		r.trouble(err)
		return
	}
	r.ledger.Consumed(seq, record.Partition)
}

func (r *runner) trouble(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
}

// troubles is the last thing that went wrong for the consumer.
func (r *runner) troubles() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// ends are the present ends of all partitions of the topic, nil when they are unknown.
func (r *runner) ends(ctx context.Context) (map[int32]int64, error) {
	listed, err := kadm.NewClient(r.consumer).ListEndOffsets(ctx, r.course.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the end of topic %s: %w", r.course.topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(end kadm.ListedOffset) { ends[end.Partition] = end.Offset })
	return ends, nil
}

// hasRead says whether the consumer has read all partitions to these ends, which have to be known.
func (r *runner) hasRead(ends map[int32]int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for partition, end := range ends {
		if r.read[partition] < end {
			return false
		}
	}
	return ends != nil
}

// encodeRecord and decodeRecord number a record by its client and sequence.
func encodeRecord(kind string, seq uint64) []byte {
	return strconv.AppendUint([]byte(kind+" "), seq, 10)
}

func decodeRecord(kind string, value []byte) (uint64, error) {
	number, ok := strings.CutPrefix(string(value), kind+" ")
	if !ok {
		return 0, fmt.Errorf("record of a stranger in the topic of %s", kind)
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the number of a record of %s: %w", kind, err)
	}
	return seq, nil
}
