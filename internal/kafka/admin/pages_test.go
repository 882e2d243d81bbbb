package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
)

// catalog is what a cluster holds: the partitions of topics, sorted by their names.
type catalog []kmsg.DescribeTopicPartitionsResponseTopic

// page answers as Kafka does: from the cursor on, as many partitions as are asked for.
func (c catalog) page(req *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	left, topics := int(req.ResponsePartitionLimit), catalog{}
	for _, t := range c {
		from := 0
		if req.Cursor != nil && *t.Topic < req.Cursor.Topic {
			continue
		}
		if req.Cursor != nil && *t.Topic == req.Cursor.Topic {
			from = int(req.Cursor.Partition)
		}
		if left == 0 {
			return page(cursor(*t.Topic, 0), topics...)
		}
		to := min(len(t.Partitions), from+left)
		topics = append(topics, topic(*t.Topic, 0, t.Partitions[from:to]...))
		if left -= to - from; to < len(t.Partitions) {
			return page(cursor(*t.Topic, int32(to)), topics...)
		}
	}
	return page(nil, topics...)
}

// serve answers by the catalog, and counts what it was asked.
func (c catalog) serve(asked *atomic.Int32) wiretest.Answer {
	return supporting(func(req kmsg.Request) kmsg.Response {
		asked.Add(1)
		switch r := req.(type) {
		case *kmsg.DescribeTopicPartitionsRequest:
			return c.page(r)
		case *kmsg.DescribeConfigsRequest:
			return settings(r, nil)
		default:
			return metadata()
		}
	})
}

// topicOf makes a topic with so many partitions, each with its copies on the brokers.
func topicOf(name string, partitions int, brokers ...int32) kmsg.DescribeTopicPartitionsResponseTopic {
	t := topic(name, 0)
	for number := range partitions {
		t.Partitions = append(t.Partitions, partition(int32(number), brokers...))
	}
	return t
}

// names are what a list names, one text each.
func names(list []admin.Partition) []string {
	said := make([]string, 0, len(list))
	for _, p := range list {
		said = append(said, fmt.Sprintf("%s-%d %v %d", p.Topic, p.Partition, p.Replicas, p.MinInSync))
	}
	return said
}

func TestAllPartitionsAreListedOnHoweverManyPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]catalog{
		"none":                        {},
		"one page exactly":            {topicOf("a", 250, 0, 1)},
		"a topic on three pages":      {topicOf("a", 1, 0), topicOf("b", 600, 0, 1), topicOf("c", 3, 2)},
		"a page ends where one does":  {topicOf("a", 250, 0), topicOf("b", 250, 1), topicOf("c", 1, 2)},
		"a topic without partitions":  {topicOf("a", 249, 0), topic("b", 0), topicOf("c", 2, 2)},
		"internal topics and capital": {topicOf("Z", 3, 1), topicOf("__consumer_offsets", 300, 0), topicOf("a", 1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []string{}
			for _, listed := range c {
				for _, p := range listed.Partitions {
					want = append(want, fmt.Sprintf("%s-%d %v 2", *listed.Topic, p.Partition, p.Replicas))
				}
			}
			var asked atomic.Int32
			got, err := script{"b0:9091": c.serve(&asked)}.open(t, []string{"b0:9091"}, nil).Partitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, names(got)); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllPagesComeFromOneBroker(t *testing.T) {
	t.Parallel()
	var zero, one atomic.Int32
	c := catalog{}
	for number := range 700 { // three pages, and their settings three times
		c = append(c, topicOf(fmt.Sprintf("t%03d", number), 1, 0))
	}
	k := script{"b0:9091": c.serve(&zero), "b1:9091": c.serve(&one)}.open(t, []string{"b0:9091", "b1:9091"}, nil)
	if list, err := k.Partitions(t.Context()); err != nil || len(list) != 700 {
		t.Fatalf("%d partitions, %v; want 700", len(list), err)
	}
	if total := zero.Load() + one.Load(); total != 6 || max(zero.Load(), one.Load()) != total {
		t.Errorf("one broker was asked %d times and another %d, want six times the same", zero.Load(), one.Load())
	}
}

// TestTheLargestPagesAreShortEnough has topics with the longest of names.
func TestTheLargestPagesAreShortEnough(t *testing.T) {
	t.Parallel()
	everywhere := func(t kmsg.DescribeTopicPartitionsResponseTopic, replicas int) kmsg.DescribeTopicPartitionsResponseTopic {
		brokers := make([]int32, replicas)
		for i := range t.Partitions {
			p := &t.Partitions[i]
			p.Replicas, p.ISR, p.LastKnownELR, p.OfflineReplicas = brokers, brokers, brokers, brokers
		}
		return t
	}
	name := func(number int) string { return fmt.Sprintf("%03d%s", number, strings.Repeat("x", 246)) }
	many := catalog{}
	for number := range 300 {
		many = append(many, everywhere(topicOf(name(number), 1, 0), 14))
	}
	for name, c := range map[string]catalog{
		"a topic for each partition, with 14 replicas": many,
		"all of one topic, with 31 replicas":           {everywhere(topicOf(name(0), 300, 0), 31)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			list, err := script{"b0:9091": c.serve(&asked)}.open(t, []string{"b0:9091"}, nil).Partitions(t.Context())
			if err != nil || len(list) != 300 {
				t.Errorf("%d partitions, %v; want 300", len(list), err)
			}
		})
	}
}

// TestTheBrokersOfTheLargestClusterAreListed has hosts and racks with the longest of names.
func TestTheBrokersOfTheLargestClusterAreListed(t *testing.T) {
	t.Parallel()
	const brokers = 1000 // no cluster is made larger
	k := script{"b0:9091": supporting(func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrDescribeClusterResponse()
		for id := range int32(brokers) {
			resp.Brokers = append(resp.Brokers, kmsg.DescribeClusterResponseBroker{
				NodeID: id, Host: strings.Repeat("h", 255), Port: 9091, Rack: new(strings.Repeat("r", 63)),
			})
		}
		return resp
	})}.open(t, slices.Repeat([]string{"b0:9091"}, brokers), nil)
	if cluster, err := k.Cluster(t.Context()); err != nil || len(cluster.Brokers) != brokers {
		t.Errorf("%d brokers, %v; want %d", len(cluster.Brokers), err, brokers)
	}
}

func TestPagesThatDoNotFollowEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	full := topicOf("t", 250, 0)
	for name, pages := range map[string][]kmsg.Response{
		"the same again":                   {page(cursor("t", 250), full), page(cursor("t", 250), full)},
		"the next begins where this did":   {page(cursor("t", 0), full)},
		"the next begins later":            {page(cursor("t", 251), full)},
		"the next begins before":           {page(cursor("a", 0), full)},
		"the next begins within a topic":   {page(cursor("u", 7), full)},
		"nothing, and more is to come":     {page(cursor("t", 0)), page(nil, full)},
		"a topic from its middle on":       {page(cursor("u", 0), full), page(nil, topic("u", 0, partition(250, 0)))},
		"a topic with a gap":               {page(nil, topic("t", 0, partition(0, 0), partition(2, 0)))},
		"topics that are not sorted":       {page(nil, topicOf("b", 1, 0), topicOf("a", 1, 0))},
		"a topic twice":                    {page(nil, topicOf("b", 2, 0), topicOf("b", 2, 0))},
		"a negative number":                {page(nil, topic("t", 0, partition(-1, 0)))},
		"the operator may not see a topic": {page(nil, topic("t", kerr.TopicAuthorizationFailed.Code))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served atomic.Int32
			k := script{"b0:9091": supporting(func(req kmsg.Request) kmsg.Response {
				if r, ok := req.(*kmsg.DescribeConfigsRequest); ok {
					return settings(r, nil)
				}
				return pages[min(int(served.Add(1)), len(pages))-1]
			})}.open(t, []string{"b0:9091"}, nil)
			if list, err := k.Partitions(t.Context()); err == nil || int(served.Load()) > len(pages) {
				t.Errorf("%d partitions of %d answers, want an error", len(list), served.Load())
			}
		})
	}
}

// TestAListThatDoesNotEndIsGivenUp has brokers that invent one topic after the other.
func TestAListThatDoesNotEndIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		partitions, replicas int
		says                 string
	}{
		"pages as long as they may be": {100, 100, "16 MiB"},
		"short pages":                  {1, 1, "1000 answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invented := func(number int32) string { return fmt.Sprintf("t%06d", number) }
			template, served := topicOf("t", c.partitions, make([]int32, c.replicas)...), atomic.Int32{}
			k := script{"b0:9091": supporting(func(kmsg.Request) kmsg.Response {
				number := served.Add(1)
				return page(cursor(invented(number+1), 0), topic(invented(number), 0, template.Partitions...))
			})}.open(t, []string{"b0:9091"}, nil)
			if list, err := k.Partitions(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d partitions, error %v; want one that names the limit of %s", len(list), err, c.says)
			}
		})
	}
}

func TestABrokerThatKnowsNoPagesIsAnError(t *testing.T) {
	t.Parallel()
	k := script{"b0:9091": func(req kmsg.Request) kmsg.Response {
		resp, ok := supporting(func(kmsg.Request) kmsg.Response { return metadata() })(req).(*kmsg.ApiVersionsResponse)
		if !ok {
			return metadata()
		}
		resp.ApiKeys = slices.DeleteFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == kmsg.DescribeTopicPartitions.Int16()
		})
		return resp
	}}.open(t, []string{"b0:9091"}, nil)
	if list, err := k.Partitions(t.Context()); err == nil || !strings.Contains(err.Error(), "listing partitions") {
		t.Errorf("%d partitions, error %v; want one that says so", len(list), err)
	} else {
		t.Log(err)
	}
}
