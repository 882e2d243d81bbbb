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
func (s script) open(t *testing.T, brokers, controllers []string) *admin.Kafka {
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
	k, err := admin.Open(admin.Options{
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
	})
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

// metadata answers with one broker and the topics.
func metadata(topics ...kmsg.MetadataResponseTopic) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: "b0", Port: 9091}}
	resp.Topics = topics
	return resp
}

func topic(name string, code int16, partitions ...kmsg.MetadataResponseTopicPartition) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.ErrorCode, t.Partitions = &name, code, partitions
	return t
}

func TestTopicsThatAreBeingDeletedAreLeftOut(t *testing.T) {
	t.Parallel()
	kept := kmsg.MetadataResponseTopicPartition{Partition: 0, Leader: 2, Replicas: []int32{2, 0, 1}, ISR: []int32{2, 1}}
	k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.MetadataRequest:
			return metadata(topic("kept", 0, kept), topic("going", 0, kept), topic("gone", kerr.UnknownTopicOrPartition.Code))
		case *kmsg.DescribeConfigsRequest:
			resp := kmsg.NewPtrDescribeConfigsResponse()
			for _, resource := range r.Resources {
				answer := kmsg.NewDescribeConfigsResponseResource()
				answer.ResourceType, answer.ResourceName = resource.ResourceType, resource.ResourceName
				if resource.ResourceName == "going" {
					answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
				} else {
					config := kmsg.NewDescribeConfigsResponseResourceConfig()
					config.Name, config.Value = "min.insync.replicas", new("2")
					answer.Configs = append(answer.Configs, config)
				}
				resp.Resources = append(resp.Resources, answer)
			}
			return resp
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
	k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.MetadataRequest:
			return metadata(topic("hidden", 0, kmsg.MetadataResponseTopicPartition{Leader: 0, Replicas: []int32{0}, ISR: []int32{0}}))
		case *kmsg.DescribeConfigsRequest:
			resp := kmsg.NewPtrDescribeConfigsResponse()
			answer := kmsg.NewDescribeConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = r.Resources[0].ResourceType, r.Resources[0].ResourceName
			answer.ErrorCode = kerr.TopicAuthorizationFailed.Code
			resp.Resources = append(resp.Resources, answer)
			return resp
		default:
			return nil
		}
	})}.open(t, []string{"b0:9091"}, nil)
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

func TestAnswersOfBrokersThatAreTooLongAreNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length int
		read   bool
	}{
		"as long as that of a large cluster": {15 << 20, true},
		"longer than any cluster's":          {17 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := script{"b0:9091": supporting(func(kmsg.Request) kmsg.Response {
				resp := kmsg.NewPtrDescribeClusterResponse()
				resp.ClusterID = strings.Repeat("x", c.length)
				return resp
			})}.open(t, []string{"b0:9091"}, nil)
			cluster, err := k.Cluster(t.Context())
			if (err == nil) != c.read || c.read != (len(cluster.ID) == c.length) {
				t.Errorf("%d bytes of an id, error %v; want read = %t", len(cluster.ID), err, c.read)
			}
		})
	}
}

func TestWhatAControllerSaysOfAVersionIsCut(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		switch req.(type) {
		case *kmsg.MetadataRequest:
			resp := metadata()
			resp.ControllerID = 0
			return resp
		case *kmsg.UpdateFeaturesRequest:
			resp, long := kmsg.NewPtrUpdateFeaturesResponse(), strings.Repeat("x", 1<<20)
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
