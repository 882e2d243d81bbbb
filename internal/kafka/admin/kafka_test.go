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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
)

// script is what the nodes of a cluster answer.
type script map[string]wiretest.Answer

// open makes a client of scripted nodes, which are named like addresses.
func (s script) open(t *testing.T, brokers, controllers []string, changes ...func(*admin.Options)) *admin.Kafka {
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
	options := admin.Options{
		Brokers: brokers, Controllers: controllers, Now: time.Now, Timeout: 10 * time.Second, DialTimeout: 10 * time.Second,
		Credentials: func(context.Context) (mtls.Credentials, error) {
			return mtls.Credentials{Identity: identity, Anchors: []*x509.Certificate{ca.Certificate()}}, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if addresses[address] == "" {
				return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("nobody is there")}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addresses[address])
		},
	}
	for _, change := range changes {
		change(&options)
	}
	k, err := admin.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
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

// page answers with topics, and where the next page begins.
func page(next *kmsg.DescribeTopicPartitionsResponseNextCursor, topics ...kmsg.DescribeTopicPartitionsResponseTopic) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	resp.Topics, resp.NextCursor = topics, next
	return resp
}

func topic(name string, code int16, partitions ...kmsg.DescribeTopicPartitionsResponseTopicPartition) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.Partitions = &name, code, partitions
	return t
}

func partition(index int32, replicas ...int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	return kmsg.DescribeTopicPartitionsResponseTopicPartition{Partition: index, LeaderID: 2, Replicas: replicas, ISR: replicas[:max(0, len(replicas)-1)]}
}

// settings answers which minimum each topic has, except those that are going.
func settings(req *kmsg.DescribeConfigsRequest, code int16, going ...string) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, resource := range req.Resources {
		answer := kmsg.NewDescribeConfigsResponseResource()
		answer.ResourceType, answer.ResourceName, answer.ErrorCode = resource.ResourceType, resource.ResourceName, code
		switch {
		case slices.Contains(going, resource.ResourceName):
			answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
		case code == 0:
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
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			return page(nil, topic("gone", kerr.UnknownTopicOrPartition.Code), topic("going", 0, partition(0, 2, 0, 1)), topic("kept", 0, partition(0, 2, 0, 1)))
		case *kmsg.DescribeConfigsRequest:
			return settings(r, 0, "going")
		default:
			return nil
		}
	}}.open(t, []string{"b0:9091"}, nil)
	got, err := k.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []admin.Partition{{Topic: "kept", Leader: 2, Replicas: []int32{0, 1, 2}, InSync: []int32{0, 2}, MinInSync: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

func TestPartitionsAreReadPageByPage(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			if r.ResponsePartitionLimit < 1 || r.ResponsePartitionLimit > 2000 {
				return nil
			}
			if r.Cursor == nil {
				return page(&kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: "b", Partition: 1}, topic("a", 0, partition(0, 1)), topic("b", 0, partition(0, 1)))
			}
			return page(nil, topic(r.Cursor.Topic, 0, partition(r.Cursor.Partition, 1)))
		case *kmsg.DescribeConfigsRequest:
			return settings(r, 0)
		default:
			return nil
		}
	}}.open(t, []string{"b0:9091"}, nil)
	partitions, err := k.Partitions(t.Context())
	got := []string{}
	for _, p := range partitions {
		got = append(got, fmt.Sprint(p.Topic, p.Partition, p.MinInSync))
	}
	if want := []string{"a0 2", "b0 2", "b1 2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("partitions %q, %v; want %q", got, err, want)
	}
}

func TestPartitionsWithoutTheirMinimumAreAnError(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			return page(nil, topic("hidden", 0, partition(0, 0)))
		case *kmsg.DescribeConfigsRequest:
			return settings(r, kerr.TopicAuthorizationFailed.Code)
		default:
			return nil
		}
	}}.open(t, []string{"b0:9091"}, nil)
	partitions, err := k.Partitions(t.Context())
	if _, ok := errors.AsType[*admin.RefusedError](err); !ok {
		t.Errorf("partitions %+v, error %v; want a RefusedError", partitions, err)
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
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.DescribeClusterRequest)
		if !ok {
			return nil
		}
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID = "id"
		resp.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: 5, Host: "b5", Port: 9091, IsFenced: true}, {NodeID: 0, Host: "b0", Port: 9091}}
		if !r.IncludeFencedBrokers {
			resp.Brokers = slices.Delete(resp.Brokers, 0, 1)
		}
		return resp
	}}.open(t, []string{"b0:9091"}, nil)
	got, err := k.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := admin.Cluster{ID: "id", Brokers: []admin.Broker{{ID: 0, Host: "b0", Port: 9091}, {ID: 5, Host: "b5", Port: 9091, Fenced: true}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
}

func TestAnswersOfBrokersThatAreTooLongAreNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length int
		read   bool
	}{
		"as long as that of a small cluster": {15 << 10, true},
		"longer than a small cluster's":      {18 << 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := script{"b0:9091": func(kmsg.Request) kmsg.Response {
				resp := kmsg.NewPtrDescribeClusterResponse()
				resp.ClusterID = strings.Repeat("x", c.length)
				return resp
			}}.open(t, []string{"b0:9091"}, nil)
			cluster, err := k.Cluster(t.Context())
			if (err == nil) != c.read || c.read != (len(cluster.ID) == c.length) {
				t.Errorf("%d bytes of an id, error %v; want read = %t", len(cluster.ID), err, c.read)
			}
		})
	}
}

func TestWhatAControllerSaysOfAVersionIsCut(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		switch req.(type) {
		case *kmsg.ApiVersionsRequest:
			return kmsg.NewPtrApiVersionsResponse()
		case *kmsg.UpdateFeaturesRequest:
			resp, long := kmsg.NewPtrUpdateFeaturesResponse(), strings.Repeat("x", 8<<10)
			resp.ErrorCode, resp.ErrorMessage = kerr.InvalidUpdateVersion.Code, &long
			return resp
		default:
			return nil
		}
	}}.open(t, []string{"b0:9091"}, nil)
	err := k.UpdateMetadataVersion(t.Context(), 25)
	if unsupported, ok := errors.AsType[*admin.UnsupportedFeatureError](err); !ok || len(unsupported.Reason) != excerpt.Foreign {
		t.Errorf("error of %d bytes, want an UnsupportedFeatureError with a reason of %d", len(fmt.Sprint(err)), excerpt.Foreign)
	}
}
