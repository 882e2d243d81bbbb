package admin_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/mtls"
)

// script is what the nodes of a cluster answer.
type script map[string]wiretest.Answer

// open makes a client of scripted nodes, which are named like addresses.
func (s script) open(t *testing.T, brokers, controllers []string) *admin.Kafka {
	t.Helper()
	return s.openTo(t, &recorded{}, admin.Options{Brokers: brokers, Controllers: controllers})
}

// openTo makes a client of the nodes that are named by the options, and records whom it dials.
func (s script) openTo(t *testing.T, dialled *recorded, options admin.Options) *admin.Kafka {
	t.Helper()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	addresses := map[string]string{}
	for name, answer := range s {
		host, _, err := net.SplitHostPort(name)
		if err != nil {
			t.Fatal(err)
		}
		leaf := server.Certificate(agenttest.Leaf(t, ca, "my-cluster-kafka", now, host))
		addresses[name] = wiretest.Serve(t, &tls.Config{Certificates: []tls.Certificate{leaf}, ClientAuth: tls.RequireAnyClientCert}, answer)
	}
	identity := server.Certificate(agenttest.Operator(t, ca, now))
	options.Now, options.Timeout, options.DialTimeout = time.Now, time.Minute, time.Minute
	options.Credentials = func(context.Context) (mtls.Credentials, error) {
		return mtls.Credentials{Identity: identity, Anchors: []*x509.Certificate{ca.Certificate()}}, nil
	}
	options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.add(address)
		if addresses[address] == "" {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("nobody is there")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, addresses[address])
	}
	k, err := admin.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// supporting answers which versions a broker supports, and everything else by
// the answer.
func supporting(answer wiretest.Answer) wiretest.Answer {
	return func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*kmsg.ApiVersionsRequest); !ok {
			return answer(req)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		for key := int16(0); key <= kmsg.MaxKey; key++ {
			if supported := kmsg.RequestForKey(key); supported != nil {
				resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: supported.MaxVersion()})
			}
		}
		return resp
	}
}

func quorum(code int16) wiretest.Answer {
	return func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrDescribeQuorumResponse()
		resp.Topics = []kmsg.DescribeQuorumResponseTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
			ErrorCode: code, LeaderID: 2, LeaderEpoch: 7, HighWatermark: 90,
			CurrentVoters: []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{
				{ReplicaID: 2, LogEndOffset: 100, LastFetchTimestamp: 5000, LastCaughtUpTimestamp: 5000},
				{ReplicaID: 1, LogEndOffset: 80, LastFetchTimestamp: -1, LastCaughtUpTimestamp: -1},
			},
			Observers: []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{{ReplicaID: 3, LogEndOffset: 99}},
		}}}}
		return resp
	}
}

func TestQuorumIsAskedUntilTheLeaderAnswers(t *testing.T) {
	t.Parallel()
	k := script{"c0:9090": quorum(kerr.NotLeaderForPartition.Code), "c2:9090": quorum(0)}.
		open(t, []string{"b0:9091"}, []string{"c0:9090", "gone:9090", "c2:9090"})
	got, err := k.Quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := admin.Quorum{
		LeaderID: 2, Epoch: 7, HighWatermark: 90,
		Voters: []admin.Replica{
			{ID: 1, LogEndOffset: 80, Lag: 20},
			{ID: 2, LogEndOffset: 100, LastFetch: time.UnixMilli(5000).UTC(), LastCaughtUp: time.UnixMilli(5000).UTC()},
		},
		Observers: []admin.Replica{{ID: 3, LogEndOffset: 99, Lag: 1, LastFetch: time.UnixMilli(0).UTC(), LastCaughtUp: time.UnixMilli(0).UTC()}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("quorum (-want +got):\n%s", diff)
	}
}

func TestQuorumWithoutALeaderSaysWhatControllersSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script script
		is     func(error) bool
	}{
		"all follow": {
			script{"c0:9090": quorum(kerr.NotLeaderForPartition.Code), "c1:9090": quorum(kerr.NotLeaderForPartition.Code)},
			func(err error) bool { return errors.Is(err, kerr.NotLeaderForPartition) },
		},
		"one follows, one is gone": {
			script{"c0:9090": quorum(kerr.NotLeaderForPartition.Code)},
			func(err error) bool {
				_, ok := errors.AsType[*admin.UnreachableError](err)
				return ok && !errors.Is(err, kerr.NotLeaderForPartition)
			},
		},
		"the operator may not ask": {
			script{"c0:9090": quorum(kerr.ClusterAuthorizationFailed.Code), "c1:9090": quorum(kerr.ClusterAuthorizationFailed.Code)},
			func(err error) bool { _, ok := errors.AsType[*admin.RefusedError](err); return ok },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := c.script.open(t, []string{"b0:9091"}, []string{"c0:9090", "c1:9090"}).Quorum(t.Context())
			if _, ok := errors.AsType[*admin.QuorumError](err); !ok || !c.is(err) {
				t.Errorf("quorum %+v, error %v; want a QuorumError that tells the reason", q, err)
			}
		})
	}
}

// metadata answers with one broker, which leads to the controllers.
func metadata() *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: "b0", Port: 9091}}
	resp.ControllerID = 0
	return resp
}

func topic(name string, code int16, partitions ...kmsg.DescribeTopicPartitionsResponseTopicPartition) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.Partitions = &name, code, partitions
	return t
}

// partition has all its replicas in sync but the last.
func partition(number int32, replicas ...int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	p.Partition, p.LeaderID, p.Replicas, p.ISR = number, 2, replicas, replicas[:len(replicas)-1]
	return p
}

// page answers with topics, and with where the next page begins.
func page(next *kmsg.DescribeTopicPartitionsResponseNextCursor, topics ...kmsg.DescribeTopicPartitionsResponseTopic) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	resp.Topics, resp.NextCursor = topics, next
	return resp
}

func cursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	return &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: topic, Partition: partition}
}

// settings answers that each topic needs two copies in sync; of some topics it gives an error
// instead.
func settings(req *kmsg.DescribeConfigsRequest, errors map[string]int16) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, resource := range req.Resources {
		answer := kmsg.NewDescribeConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = resource.ResourceType, resource.ResourceName
		if answer.ErrorCode = errors[resource.ResourceName]; answer.ErrorCode == 0 {
			config := kmsg.NewDescribeConfigsResponseResourceConfig()
			config.Name, config.Value = "min.insync.replicas", new("2")
			answer.Configs = append(answer.Configs, config)
		}
		resp.Resources = append(resp.Resources, answer)
	}
	return resp
}

func TestTopicsThatAreBeingDeletedAreLeftOut(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			return page(nil, topic("going", 0, partition(0, 2, 0, 1)), topic("gone", kerr.UnknownTopicOrPartition.Code), topic("kept", 0, partition(0, 2, 1, 0)))
		case *kmsg.DescribeConfigsRequest:
			return settings(r, map[string]int16{"going": kerr.UnknownTopicOrPartition.Code})
		default:
			return nil
		}
	})}.open(t, []string{"b0:9091"}, nil)
	got, err := k.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []admin.Partition{{Topic: "kept", Leader: 2, Replicas: []int32{0, 1, 2}, InSync: []int32{1, 2}, MinInSync: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

func TestPartitionsWithoutTheirMinimumAreAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(*kmsg.DescribeConfigsRequest) kmsg.Response
		is     func(error) bool
	}{
		"the operator may not ask": {
			func(r *kmsg.DescribeConfigsRequest) kmsg.Response {
				return settings(r, map[string]int16{"hidden": kerr.TopicAuthorizationFailed.Code})
			},
			func(err error) bool { _, ok := errors.AsType[*admin.RefusedError](err); return ok },
		},
		"nothing is said of the topic": {
			func(*kmsg.DescribeConfigsRequest) kmsg.Response { return kmsg.NewPtrDescribeConfigsResponse() },
			func(err error) bool { return err != nil && strings.Contains(err.Error(), "topic hidden") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
				switch r := req.(type) {
				case *kmsg.DescribeTopicPartitionsRequest:
					return page(nil, topic("hidden", 0, partition(0, 0)))
				case *kmsg.DescribeConfigsRequest:
					return c.answer(r)
				default:
					return metadata()
				}
			})}.open(t, []string{"b0:9091"}, nil)
			if partitions, err := k.Partitions(t.Context()); !c.is(err) {
				t.Errorf("partitions %+v, error %v; want one that says so", partitions, err)
			}
		})
	}
}

func TestOnlyTheAnswerToWhatWasAskedIsTakenForTheMinimum(t *testing.T) {
	t.Parallel()
	setting := func(topic, name, value string) kmsg.DescribeConfigsResponseResource {
		told := kmsg.NewDescribeConfigsResponseResource()
		told.ResourceType, told.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		config := kmsg.NewDescribeConfigsResponseResourceConfig()
		config.Name, config.Value = name, &value
		told.Configs = append(told.Configs, config)
		return told
	}
	minimum := func(topic, value string) kmsg.DescribeConfigsResponseResource {
		return setting(topic, "min.insync.replicas", value)
	}
	both := setting("asked", "retention.ms", "7")
	both.Configs = append(both.Configs, minimum("asked", "2").Configs...)
	for name, told := range map[string][]kmsg.DescribeConfigsResponseResource{
		"a topic that nobody asked for comes first": {minimum("stranger", "not a number"), minimum("asked", "2")},
		"the topic comes twice":                     {minimum("asked", "2"), minimum("asked", "1")},
		"another setting comes before":              {both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
				switch req.(type) {
				case *kmsg.DescribeTopicPartitionsRequest:
					return page(nil, topic("asked", 0, partition(0, 0, 1)))
				case *kmsg.DescribeConfigsRequest:
					resp := kmsg.NewPtrDescribeConfigsResponse()
					resp.Resources = told
					return resp
				default:
					return metadata()
				}
			})}.open(t, []string{"b0:9091"}, nil)
			list, err := k.Partitions(t.Context())
			if diff := cmp.Diff([]string{"asked-0 [0 1] 2"}, names(list)); err != nil || diff != "" {
				t.Errorf("error %v, partitions (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestClientNeedsABroker(t *testing.T) {
	t.Parallel()
	if k, err := admin.Open(admin.Options{}); err == nil {
		k.Close()
		t.Error("opened, want an error")
	}
}

func TestFencedBrokersAreAskedFor(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.DescribeClusterRequest)
		if !ok {
			return metadata()
		}
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID = "id"
		resp.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: 5, Host: "b5", Port: 9091, IsFenced: true}, {NodeID: 0, Host: "b0", Port: 9091}}
		if !r.IncludeFencedBrokers {
			resp.Brokers = slices.Delete(resp.Brokers, 0, 1)
		}
		return resp
	})}.open(t, []string{"b0:9091"}, nil)
	got, err := k.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := admin.Cluster{ID: "id", Brokers: []admin.Broker{{ID: 0, Host: "b0", Port: 9091}, {ID: 5, Host: "b5", Port: 9091, Fenced: true}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
}

func TestWhatAControllerSaysOfAVersionIsCut(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		switch req.(type) {
		case *kmsg.MetadataRequest:
			return metadata()
		case *kmsg.UpdateFeaturesRequest:
			resp, long := kmsg.NewPtrUpdateFeaturesResponse(), strings.Repeat("x", 64<<10)
			resp.ErrorCode, resp.ErrorMessage = kerr.InvalidUpdateVersion.Code, &long
			return resp
		default:
			return nil
		}
	})}.open(t, []string{"b0:9091"}, nil)
	err := k.UpdateMetadataVersion(t.Context(), 25)
	if unsupported, ok := errors.AsType[*admin.UnsupportedFeatureError](err); !ok || len(unsupported.Reason) != excerpt.Foreign {
		t.Errorf("error of %d bytes, want an UnsupportedFeatureError with a reason of %d", len(fmt.Sprint(err)), excerpt.Foreign)
	}
}

// recorded is what a client has dialled.
type recorded struct {
	mu        sync.Mutex
	addresses []string
}

func (r *recorded) add(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses = append(r.addresses, address)
}

// all is a copy, because a client may go on dialling.
func (r *recorded) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.addresses)
}

// naming is a broker that names others: as brokers, and the last of them as the controller.
func naming(hosts ...string) wiretest.Answer {
	return supporting(func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.MetadataRequest:
			resp := kmsg.NewPtrMetadataResponse()
			for i, host := range hosts {
				resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: int32(i), Host: host, Port: 9091})
				resp.ControllerID = int32(i)
			}
			return resp
		case *kmsg.DescribeTopicPartitionsRequest:
			return page(nil, topic("orders", 0, partition(0, 0, 1)))
		case *kmsg.DescribeConfigsRequest:
			return settings(r, nil)
		default:
			return req.ResponseKind()
		}
	})
}

func TestNobodyConnectsToAnAddressThatNoNodeOfTheClusterHas(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *admin.Kafka) error{
		"to describe the cluster":       func(ctx context.Context, k *admin.Kafka) error { _, err := k.Cluster(ctx); return err },
		"to list partitions":            func(ctx context.Context, k *admin.Kafka) error { _, err := k.Partitions(ctx); return err },
		"to read the features":          func(ctx context.Context, k *admin.Kafka) error { _, err := k.Features(ctx); return err },
		"to describe the quorum":        func(ctx context.Context, k *admin.Kafka) error { _, err := k.Quorum(ctx); return err },
		"to unregister a broker":        func(ctx context.Context, k *admin.Kafka) error { return k.UnregisterBroker(ctx, 1) },
		"to raise the metadata version": func(ctx context.Context, k *admin.Kafka) error { return k.UpdateMetadataVersion(ctx, 25) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialled := &recorded{}
			k := script{"b0:9091": naming("b0", "metadata.internal")}.openTo(t, dialled, admin.Options{Brokers: []string{"b0:9091"}})
			for range 4 { // whoever is asked next
				err := ask(t.Context(), k)
				if stranger, ok := errors.AsType[*admin.StrangerError](err); err != nil && (!ok || stranger.Address != "metadata.internal:9091") {
					t.Errorf("error %v, want one that names the address, or none", err)
				}
			}
			if slices.Contains(dialled.all(), "metadata.internal:9091") {
				t.Errorf("dialled were %v", dialled.all())
			}
		})
	}
}

func TestAControllerThatIsNoNodeOfTheClusterIsNamed(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": naming("b0", "metadata.internal")}.open(t, []string{"b0:9091"}, nil)
	err := k.UpdateMetadataVersion(t.Context(), 25)
	if stranger, ok := errors.AsType[*admin.StrangerError](err); !ok || stranger.Address != "metadata.internal:9091" || !strings.Contains(err.Error(), "metadata.internal:9091") {
		t.Errorf("error %v, want one that names the address", err)
	}
}

func TestABrokerThatIsLeavingIsConnectedToWhenOthersNameIt(t *testing.T) {
	t.Parallel()
	dialled := &recorded{}
	k := script{"b0:9091": naming("b0", "b1"), "b1:9091": naming("b0", "b1")}.
		openTo(t, dialled, admin.Options{Brokers: []string{"b0:9091"}, Leaving: []string{"b1:9091"}})
	if err := k.UpdateMetadataVersion(t.Context(), 25); err != nil {
		t.Fatal(err)
	}
	if got := dialled.all(); got[0] != "b0:9091" || !slices.Contains(got, "b1:9091") {
		t.Errorf("dialled were %v, want the broker, and the controller that it names", got)
	}
}

func TestABrokerInTheDomainOfTheClusterIsConnectedTo(t *testing.T) {
	t.Parallel()
	dialled := &recorded{}
	k := script{"b0:9091": naming("b0", "b1.brokers.svc"), "b1.brokers.svc:9091": naming("b0", "b1.brokers.svc")}.
		openTo(t, dialled, admin.Options{Brokers: []string{"b0:9091"}, Domain: "brokers.svc"})
	if err := k.UpdateMetadataVersion(t.Context(), 25); err != nil {
		t.Fatal(err)
	}
	if got := dialled.all(); !slices.Contains(got, "b1.brokers.svc:9091") {
		t.Errorf("dialled were %v, want the controller in the domain", got)
	}
	other := script{"b0:9091": naming("b0", "otherbrokers.svc")}.openTo(t, dialled, admin.Options{Brokers: []string{"b0:9091"}, Domain: "brokers.svc"})
	if _, ok := errors.AsType[*admin.StrangerError](other.UpdateMetadataVersion(t.Context(), 25)); !ok {
		t.Error("a broker outside of the domain was connected to")
	}
}

func TestAnAddressThatNoNodeHasIsCutWhereItIsTold(t *testing.T) {
	t.Parallel()
	if said := (&admin.StrangerError{Address: strings.Repeat("x", 32<<10)}).Error(); len(said) > 2*excerpt.Foreign {
		t.Errorf("%d bytes are said of it", len(said))
	}
}
