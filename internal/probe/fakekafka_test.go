package probe_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// fakeKafka speaks Kafka's protocol in this process, so that it can be made to
// lie.
type fakeKafka struct {
	*kfake.Cluster

	addresses []string
}

func startFakeKafka(t *testing.T) *fakeKafka {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &fakeKafka{Cluster: cluster, addresses: cluster.ListenAddrs()}
}

// Nodes implements probe.Network.
func (k *fakeKafka) Nodes() []reach.Node {
	nodes := make([]reach.Node, 0, len(k.addresses))
	for i := range k.addresses {
		name := "fake-" + strconv.Itoa(i)
		nodes = append(nodes, reach.Node{Name: name, Host: name, UID: "u", Address: "127.0.0.1", Ready: true, Broker: true})
	}
	return nodes
}

// Dial implements probe.Network: fake-N is the Nth broker, on any port.
func (k *fakeKafka) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if number, ok := strings.CutPrefix(host, "fake-"); ok {
		index, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		address = k.addresses[index]
	}
	return dialer.DialContext(ctx, network, address)
}

func (k *fakeKafka) options() probe.Options {
	identity := probe.Identity{Listener: probe.Listener{Name: "plain", Port: 9092, Bootstrap: "fake-0:9092"}}
	return probe.Options{
		Run: "r", Network: k, Interval: 5 * time.Millisecond, HandshakeInterval: 50 * time.Millisecond,
		Deadline: 10 * time.Second,
		Clients:  []probe.Client{{Identity: identity, Kind: "one"}, {Identity: identity, Kind: "two"}},
	}
}

func startProbe(t *testing.T, options probe.Options) *probe.Probe {
	t.Helper()
	running, err := probe.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return running
}

// awaitSnapshot waits until a snapshot is as wanted.
func awaitSnapshot(t *testing.T, running *probe.Probe, wanted func(probe.Snapshot) bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !wanted(running.Snapshot()) {
		select {
		case <-ctx.Done():
			t.Fatalf("the probe does not get there:\n%s", probe.Table(running.Snapshot()))
		case <-ticker.C:
		}
	}
}

// busy says that every client got n records through, and fresh connections to
// every node.
func busy(n uint64) func(probe.Snapshot) bool {
	return func(s probe.Snapshot) bool {
		for _, client := range s.Clients {
			if client.Records.Acknowledged < n || len(client.Handshakes) < 3 {
				return false
			}
		}
		return true
	}
}

func topics(t *testing.T, k *fakeKafka) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addresses...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return listed.Names()
}

func TestAnHonestClusterLosesNothing(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	running := startProbe(t, kafka.options())
	awaitSnapshot(t, running, busy(20))
	running.SetPhase("later")
	awaitSnapshot(t, running, func(s probe.Snapshot) bool { return s.Clients[0].Records.Phases["later"].Acknowledged > 5 })
	result := running.Stop(t.Context())
	if !result.Ok() || len(result.Notes) > 0 {
		t.Errorf("not ok, notes %q:\n%s", result.Notes, probe.Table(result.Snapshot))
	}
	for _, client := range result.Clients {
		records := client.Records
		if records.Sent != records.Acknowledged || records.Acknowledged != records.Consumed || len(records.Acks.Counts) == 0 {
			t.Errorf("%s: sent %d, acknowledged %d, consumed %d", client.Kind, records.Sent, records.Acknowledged, records.Consumed)
		}
	}
	if left := topics(t, kafka); len(left) > 0 {
		t.Errorf("topics were left behind: %q", left)
	}
}

// watched is what the first watch has counted in a phase, on all nodes.
func watched(s probe.Snapshot, phase string) observe.Tally {
	var total observe.Tally
	for _, node := range s.Watches[0].Nodes {
		total.Accepted += node.Phases[phase].Accepted
		total.Refused += node.Phases[phase].Refused
	}
	return total
}

func TestAWatchOfAnotherProgramIsCountedByNodeAndPhase(t *testing.T) {
	t.Parallel()
	running := startProbe(t, startFakeKafka(t).options())
	running.SetPhase("accepted")
	var refusing atomic.Bool
	err := running.Watch(probe.Watch{
		Name: "other", Identity: probe.Identity{Listener: probe.Listener{Name: "tls", Port: 9093, TLS: true}},
		By: func(_ context.Context, node reach.Node) (observe.Presented, error) {
			if refusing.Load() && node.Name == "fake-1" {
				return observe.Presented{}, &verdict.Error{Verdict: verdict.Refused, Reason: verdict.AlertUnknownCA}
			}
			return observe.Presented{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitSnapshot(t, running, func(s probe.Snapshot) bool { return watched(s, "accepted").Accepted >= 3 })
	running.SetPhase("refused")
	refusing.Store(true)
	awaitSnapshot(t, running, func(s probe.Snapshot) bool { return watched(s, "refused").Refused >= 1 })
	result := running.Stop(t.Context())

	if tally := watched(result.Snapshot, "accepted"); tally.Refused > 0 {
		t.Errorf("refused %d times before anybody refused", tally.Refused)
	}
	for _, node := range result.Watches[0].Nodes {
		if refused := node.Phases["refused"].Refused > 0; refused != (node.Node == "fake-1") {
			t.Errorf("%s refused: %t", node.Node, refused)
		}
	}
	listed := false
	for _, row := range result.Report("r", "m").Handshakes {
		listed = listed || row.Who == "other" && row.Node == "fake-1" && row.Phase == "refused" && row.Refused > 0
	}
	if !listed {
		t.Error("the report does not say who was refused where and when")
	}
}

func TestTopicsStayWhereTheyAreToBeLookedAt(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	options := kafka.options()
	options.KeepTopics = true
	running := startProbe(t, options)
	running.Stop(t.Context())
	if left := topics(t, kafka); len(left) != 2 {
		t.Errorf("topics %q, want those of two clients", left)
	}
}

// shared are the options of a client with a topic of its own choice.
func (k *fakeKafka) shared(kind string) probe.Options {
	options := k.options()
	options.Topic = probe.Topic{Name: "orders", Partitions: 2, Retention: time.Hour}
	options.Clients = options.Clients[:1]
	options.Clients[0].Kind = kind
	return options
}

func TestClientsOfOneTopicCountTheirOwnRecords(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	first := startProbe(t, kafka.shared("first"))
	awaitSnapshot(t, first, busy(20))
	second := startProbe(t, kafka.shared("second"))
	awaitSnapshot(t, second, busy(20))
	for _, running := range []*probe.Probe{first, second} {
		result := running.Stop(t.Context())
		records := result.Clients[0].Records
		if !result.Ok() || records.Sent != records.Consumed || len(result.Notes) > 0 {
			t.Errorf("not ok, notes %q:\n%s", result.Notes, probe.Table(result.Snapshot))
		}
	}
	again := startProbe(t, kafka.shared("first"))
	awaitSnapshot(t, again, busy(20))
	if result := again.Stop(t.Context()); !result.Ok() {
		t.Errorf("another run reads what was there before it:\n%s", probe.Table(result.Snapshot))
	}
	if left := topics(t, kafka); len(left) != 1 || left[0] != "orders" {
		t.Errorf("topics %q are left, want the one that was given", left)
	}
}

func TestATopicThatExistsIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.addresses...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	running := startProbe(t, kafka.shared("one"))
	awaitSnapshot(t, running, busy(20))
	if result := running.Stop(t.Context()); !result.Ok() {
		t.Errorf("not ok, notes %q:\n%s", result.Notes, probe.Table(result.Snapshot))
	}
}

func TestOneTopicIsForOneClient(t *testing.T) {
	t.Parallel()
	options := startFakeKafka(t).options()
	options.Topic.Name = "orders"
	if _, err := probe.Start(t.Context(), options); err == nil || !strings.Contains(err.Error(), "topic orders is given for one client") {
		t.Errorf("a probe of two clients with one topic starts: %v", err)
	}
}

func TestAClientMakesFreshConnectionsByAnotherWay(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	options := kafka.shared("one")
	options.Clients[0].By = func(context.Context, reach.Node) (observe.Presented, error) {
		return observe.Presented{}, &verdict.Error{Verdict: verdict.Refused, Reason: verdict.AlertUnknownCA}
	}
	running := startProbe(t, options)
	awaitSnapshot(t, running, func(s probe.Snapshot) bool { return s.Clients[0].TLSFailures[verdict.AlertUnknownCA] > 0 })
	if err := running.Bootstrap("fake-1:9092"); err != nil {
		t.Error(err)
	}
	if err := running.Bootstrap("fake-1:port"); err == nil {
		t.Error("an address without a port is taken")
	}
	running.Stop(t.Context())
}

func TestALostRecordIsFoundWhileTheProbeRuns(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	running := startProbe(t, kafka.shared("one"))
	awaitSnapshot(t, running, busy(20))
	var swallowed atomic.Bool
	kafka.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		var promise kmsg.Response
		if produce, ok := request.(*kmsg.ProduceRequest); ok && swallowed.CompareAndSwap(false, true) {
			promise = acknowledge(produce)
		}
		return promise, nil, promise != nil
	})
	awaitSnapshot(t, running, func(s probe.Snapshot) bool { return s.Clients[0].Overtaken > 0 })
	running.Stop(t.Context())
}

func TestAnAcknowledgedRecordThatWasNotKeptIsFound(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	running := startProbe(t, kafka.options())
	awaitSnapshot(t, running, busy(20))
	var swallowed atomic.Int64
	kafka.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		var promise kmsg.Response
		if produce, ok := request.(*kmsg.ProduceRequest); ok && swallowed.CompareAndSwap(0, 1) {
			promise = acknowledge(produce)
		}
		return promise, nil, promise != nil
	})
	awaitSnapshot(t, running, func(probe.Snapshot) bool { return swallowed.Load() > 0 })
	result := running.Stop(t.Context())
	var lost uint64
	for _, client := range result.Clients {
		lost += client.Records.Unread
	}
	if lost == 0 || result.Ok() || !result.Complete {
		t.Errorf("%d lost, ok %t, complete %t; want the loss found in a log read to its end\n%s",
			lost, result.Ok(), result.Complete, probe.Table(result.Snapshot))
	}
}

// acknowledge promises what it does not do.
func acknowledge(request *kmsg.ProduceRequest) kmsg.Response { return answerAll(request, 0) }

// answerAll says the same of all records.
func answerAll(request *kmsg.ProduceRequest, code int16) kmsg.Response {
	response, ok := request.ResponseKind().(*kmsg.ProduceResponse)
	if !ok {
		return nil
	}
	for _, topic := range request.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			accepted := kmsg.NewProduceResponseTopicPartition()
			accepted.Partition, accepted.ErrorCode = partition.Partition, code
			answer.Partitions = append(answer.Partitions, accepted)
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

func TestARecordThatIsThereTwiceIsFound(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	running := startProbe(t, kafka.options())
	awaitSnapshot(t, running, busy(20))
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.addresses...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	again := &kgo.Record{Topic: "keyturn-probe-r-one.plain", Value: []byte("one 3")}
	if err := client.ProduceSync(t.Context(), again).FirstErr(); err != nil {
		t.Fatal(err)
	}
	result := running.Stop(t.Context())
	if got := result.Clients[0].Records.Duplicated; got != 1 || result.Ok() {
		t.Errorf("%d duplicates, ok %t; want one", got, result.Ok())
	}
	if got := result.Clients[1].Records.Duplicated; got != 0 {
		t.Errorf("the other client has %d duplicates", got)
	}
}

func TestAProbeThatCannotProduceDoesNotStart(t *testing.T) {
	t.Parallel()
	kafka := startFakeKafka(t)
	options := kafka.options()
	options.Deadline = 200 * time.Millisecond
	refuse := func(kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		return nil, net.ErrClosed, true
	}
	kafka.ControlKey(int16(kmsg.Produce), refuse)
	if _, err := probe.Start(t.Context(), options); err == nil {
		t.Fatal("a probe whose clients cannot produce has started")
	}
	if left := topics(t, kafka); len(left) > 0 {
		t.Errorf("topics were left behind: %q", left)
	}
}

func TestAPasswordThatABrokerDoesNotKnowYetIsTriedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		login  *probe.Login
		starts bool
	}{
		"by who has a password":  {&probe.Login{User: "user", Password: "password"}, true},
		"by nobody else, though": {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafka := startFakeKafka(t)
			options := kafka.options()
			options.Clients = options.Clients[:1]
			options.Clients[0].Login = test.login
			kafka.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
				var refusal kmsg.Response
				if produce, ok := request.(*kmsg.ProduceRequest); ok {
					refusal = answerAll(produce, kerr.SaslAuthenticationFailed.Code)
				}
				return refusal, nil, refusal != nil
			})
			running, err := probe.Start(t.Context(), options)
			if (err == nil) != test.starts {
				t.Fatalf("starting: %v", err)
			}
			if err == nil {
				running.Stop(t.Context())
			}
		})
	}
}
