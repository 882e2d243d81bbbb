package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// controller is a broker that answers requests about topics, and names itself as the controller.
func controller(answer func(kmsg.Request) kmsg.Response) script {
	return script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
		if _, is := req.(*kmsg.MetadataRequest); is {
			resp := metadata()
			resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: "b0", Port: 9091}}
			return resp
		}
		return answer(req)
	})}
}

// limited creates topics as Kafka does, which does not create too many partitions in one request. A topic that leaves the number to
// brokers gets 200. It notes how many topics were asked for.
func limited(requests *[]int) script {
	return controller(func(req kmsg.Request) kmsg.Response {
		create := req.(*kmsg.CreateTopicsRequest)
		*requests = append(*requests, len(create.Topics))
		resp := kmsg.NewPtrCreateTopicsResponse()
		partitions := 0
		for _, topic := range create.Topics {
			if topic.NumPartitions == topics.Default {
				topic.NumPartitions = 200
			}
			partitions += int(topic.NumPartitions)
			result := kmsg.NewCreateTopicsResponseTopic()
			result.Topic, result.NumPartitions = topic.Topic, topic.NumPartitions
			if strings.HasPrefix(topic.Topic, "against-policy") {
				result.ErrorCode, result.ErrorMessage = kerr.PolicyViolation.Code, new("not "+topic.Topic)
			}
			resp.Topics = append(resp.Topics, result)
		}
		for i := range resp.Topics {
			if partitions > 10_000 {
				resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = kerr.PolicyViolation.Code, new("Excessively large number of partitions per request.")
			}
		}
		return resp
	})
}

func some(count int, partitions int32) []topics.New {
	wanted := make([]topics.New, 0, count)
	for i := range count {
		wanted = append(wanted, topics.New{Name: fmt.Sprintf("t-%d-%d", partitions, i), Partitions: partitions, Replicas: 1})
	}
	return wanted
}

func TestTopicsAreCreatedInRequestsThatKafkaAccepts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wanted []topics.New
		want   []int
	}{
		"none":                         {nil, nil},
		"as many as one request takes": {some(100, 100), []int{100}},
		"one more":                     {some(101, 1), []int{100, 1}},
		"too many partitions":          {some(100, 200), []int{50, 50}},
		"one that alone has as many as there can be": {slices.Concat(some(1, 1), some(1, 10_000), some(2, 2)), []int{1, 1, 2}},
		"a number that brokers alone know":           {some(80, topics.Default), []int{80, 40, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests []int
			k := limited(&requests).open(t, []string{"b0:9091"}, nil)
			created, err := k.CreateTopics(t.Context(), c.wanted)
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range c.wanted {
				if result, is := created[topic.Name]; !is || result.Err != nil {
					t.Errorf("topic %s: %v", topic.Name, result.Err)
				}
			}
			if diff := cmp.Diff(c.want, requests); diff != "" {
				t.Errorf("topics in each request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATopicThatIsTooLargeForAnyRequestStopsNoOther(t *testing.T) {
	t.Parallel()
	var requests []int
	k := limited(&requests).open(t, []string{"b0:9091"}, nil)
	created, err := k.CreateTopics(t.Context(), slices.Concat(some(1, 1), some(1, 10_001), some(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for name, isCreated := range map[string]bool{"t-1-0": true, "t-10001-0": false, "t-2-0": true} {
		if result, is := created[name]; !is || (result.Err == nil) != isCreated {
			t.Errorf("topic %s: %v", name, result.Err)
		}
	}
}

func TestTopicsThatAllViolateAPolicyAreNotAskedForAgain(t *testing.T) {
	t.Parallel()
	var requests []int
	k := limited(&requests).open(t, []string{"b0:9091"}, nil)
	created, err := k.CreateTopics(t.Context(), []topics.New{{Name: "against-policy-1"}, {Name: "against-policy-2"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, result := range created {
		if !errors.Is(result.Err, kerr.PolicyViolation) {
			t.Errorf("topic %s: %v", name, result.Err)
		}
	}
	if !slices.Equal(requests, []int{2}) {
		t.Errorf("requests are %v", requests)
	}
}

func TestATopicOfWhichTheAnswerSaysNothingIsNotCreated(t *testing.T) {
	t.Parallel()
	k := controller(func(kmsg.Request) kmsg.Response { return kmsg.NewPtrCreateTopicsResponse() }).open(t, []string{"b0:9091"}, nil)
	created, err := k.CreateTopics(t.Context(), some(1, 1))
	if err != nil || created["t-1-0"].Err == nil {
		t.Errorf("%+v, %v; want an error of the topic", created, err)
	}
}

func TestADeletionNamesTheIDAlone(t *testing.T) {
	t.Parallel()
	id := topics.ID{1, 2, 3}
	for name, c := range map[string]struct {
		code int16
		ok   func(error) bool
	}{
		"it is deleted":        {0, func(err error) bool { return err == nil }},
		"it does not exist":    {kerr.UnknownTopicID.Code, func(err error) bool { return err == nil }},
		"deletion is disabled": {kerr.TopicDeletionDisabled.Code, admin.IsDeletionDisabled},
		"it is not authorized": {kerr.TopicAuthorizationFailed.Code, admin.IsUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := controller(func(req kmsg.Request) kmsg.Response {
				resp := kmsg.NewPtrDeleteTopicsResponse()
				for _, topic := range req.(*kmsg.DeleteTopicsRequest).Topics {
					if topic.Topic != nil || topic.TopicID != id {
						t.Errorf("asked for %v with id %v", topic.Topic, topic.TopicID)
					}
					result := kmsg.NewDeleteTopicsResponseTopic()
					result.TopicID, result.ErrorCode = topic.TopicID, c.code
					resp.Topics = append(resp.Topics, result)
				}
				return resp
			}).open(t, []string{"b0:9091"}, nil)
			if err := k.DeleteTopic(t.Context(), id); !c.ok(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// described answers with pages of topics, and with properties of each.
func described(pages []kmsg.Response, properties func(topic string) kmsg.DescribeConfigsResponseResource) script {
	return controller(func(req kmsg.Request) kmsg.Response {
		switch req := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			next := pages[0]
			pages = pages[1:]
			return next
		case *kmsg.DescribeConfigsRequest:
			resp := kmsg.NewPtrDescribeConfigsResponse()
			for _, resource := range req.Resources {
				of := properties(resource.ResourceName)
				of.ResourceType, of.ResourceName = resource.ResourceType, resource.ResourceName
				resp.Resources = append(resp.Resources, of)
			}
			return resp
		default:
			return metadata()
		}
	})
}

func property(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfig {
	return kmsg.DescribeConfigsResponseResourceConfig{Name: name, Value: &value, Source: source}
}

func TestTopicsAreDescribedByWhatTheySetThemselves(t *testing.T) {
	t.Parallel()
	secret := property("secret", "x", kmsg.ConfigSourceDynamicTopicConfig)
	secret.IsSensitive = true
	k := described([]kmsg.Response{
		page(cursor("b", 1), topic("a", 0, partition(0, 1, 2)), topic("b", 0, partition(0, 1))),
		page(nil, topic("b", 0, partition(1, 1, 2, 3)), topic("deleted", 0, partition(0, 1)), topic("unlisted", kerr.UnknownTopicOrPartition.Code)),
	}, func(name string) kmsg.DescribeConfigsResponseResource {
		if name == "deleted" {
			return kmsg.DescribeConfigsResponseResource{ErrorCode: kerr.UnknownTopicOrPartition.Code}
		}
		return kmsg.DescribeConfigsResponseResource{Configs: []kmsg.DescribeConfigsResponseResourceConfig{
			property("retention.ms", "1", kmsg.ConfigSourceDynamicTopicConfig), property("segment.ms", "1", kmsg.ConfigSourceStaticBrokerConfig),
			property("flush.ms", "1", kmsg.ConfigSourceDefaultConfig), property("min.insync.replicas", "1", kmsg.ConfigSourceDynamicBrokerConfig), secret,
		}}
	}).open(t, []string{"b0:9091"}, nil)
	got, err := k.DescribeTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]string{"retention.ms": "1"}
	want := map[string]topics.Topic{
		"a": {Partitions: 1, Fewest: 2, Most: 2, Config: config},
		"b": {Partitions: 2, Fewest: 1, Most: 3, Config: config},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

func TestAListOfTopicsThatDoesNotGoOnIsAnError(t *testing.T) {
	t.Parallel()
	for name, pages := range map[string][]kmsg.Response{
		"a page without anything":    {page(cursor("a", 1), topic("a", 0, partition(0, 1))), page(cursor("a", 1))},
		"a partition once more":      {page(nil, topic("a", 0, partition(0, 1), partition(0, 1)))},
		"a partition is left out":    {page(nil, topic("a", 0, partition(1, 1)))},
		"a topic once more":          {page(nil, topic("a", 0, partition(0, 1)), topic("b", 0, partition(0, 1)), topic("a", 0, partition(1, 1)))},
		"topics that are not sorted": {page(nil, topic("b", 0, partition(0, 1)), topic("a", 0, partition(0, 1)))},
		"a topic without partitions": {page(nil, topic("a", 0))},
		"a topic with an error":      {page(nil, topic("a", kerr.TopicAuthorizationFailed.Code, partition(0, 1)))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := described(pages, func(string) kmsg.DescribeConfigsResponseResource { return kmsg.DescribeConfigsResponseResource{} }).
				open(t, []string{"b0:9091"}, nil)
			if got, err := k.DescribeTopics(t.Context()); err == nil {
				t.Errorf("topics %v, want an error", got)
			}
		})
	}
}

// Properties of topics can be long, and those of a page more than one answer may have.
func TestTopicsAreDescribedInAnswersThatAreShortEnough(t *testing.T) {
	t.Parallel()
	var listed []kmsg.DescribeTopicPartitionsResponseTopic
	for i := range 30 {
		listed = append(listed, topic(fmt.Sprintf("t-%02d", i), 0, partition(0, 1)))
	}
	k := described([]kmsg.Response{page(nil, listed...)}, func(string) kmsg.DescribeConfigsResponseResource {
		return kmsg.DescribeConfigsResponseResource{Configs: []kmsg.DescribeConfigsResponseResourceConfig{
			property("long", strings.Repeat("x", 10<<10), kmsg.ConfigSourceDynamicTopicConfig),
		}}
	}).openTo(t, &recorded{}, admin.Options{Brokers: []string{"b0:9091"}, AnswerLimit: 64 << 10})
	got, err := k.DescribeTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(listed) || len(got["t-29"].Config["long"]) != 10<<10 {
		t.Errorf("%d topics are described, want %d with their properties", len(got), len(listed))
	}
}

func TestTheTopicsOfAClusterAreKeptInBoundedMemory(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 17<<20)
	k := described([]kmsg.Response{page(nil, topic("a", 0, partition(0, 1)))}, func(string) kmsg.DescribeConfigsResponseResource {
		return kmsg.DescribeConfigsResponseResource{Configs: []kmsg.DescribeConfigsResponseResourceConfig{
			property("long", long, kmsg.ConfigSourceDynamicTopicConfig),
		}}
	}).openTo(t, &recorded{}, admin.Options{Brokers: []string{"b0:9091"}, AnswerLimit: 32 << 20})
	if _, err := k.DescribeTopics(t.Context()); err == nil {
		t.Error("no error, want that it is too much")
	}
}
