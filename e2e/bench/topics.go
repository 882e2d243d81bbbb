package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// What is promised of many topics.
const (
	topicsReadyWithin = time.Minute
	maxTopicsMiB      = 96
)

// topicProcess is the Deployment of the topic operator of the bench's cluster, and topicAccount its ServiceAccount.
const (
	topicProcess = "keyturn-topics-" + namespace + "-" + cluster
	topicAccount = "system:serviceaccount:" + harness.OperatorNamespace + ":" + topicProcess
)

// topics measures how long many topics take that are applied at once, one of which Kafka rejects, and what they cost.
func topics(ctx context.Context, b *bench) (*finding, error) {
	// The memory is what the chart gives.
	if err := b.install(ctx, map[string]any{"topicOperators": []map[string]any{{"namespace": namespace, "cluster": cluster}}}); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := b.createTopics(ctx, b.size.topics); err != nil {
		return nil, err
	}
	if err := b.untilTopicsReady(ctx, b.size.topics); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	used, err := b.leading(ctx, topicProcess)
	if err != nil {
		return nil, err
	}
	quiet, notes, err := b.quietTopics(ctx)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d topics", b.size.topics)
	found := &finding{notes: append(b.company(ctx), notes...), figures: append([]report.Figure{
		report.AtMost(what+" ready", took.Seconds(), topicsReadyWithin.Seconds(), "s",
			"of one partition with one replica, from the first create, 16 at a time, until a list shows all but the one Ready that Kafka rejects"),
		report.AtMost(what+", topic operator, resident", used.resident/mebibyte, maxTopicsMiB, "MiB", "its own account of /proc/self when all topics were ready"),
		report.Observed(what+", topic operator, CPU", used.cpuSeconds, "CPU-s", "the same, since its start"),
	}, quiet...)}
	return found, b.noTopics(ctx)
}

// quietTopics counts what the topic operator writes while nothing changes.
func (b *bench) quietTopics(ctx context.Context) ([]report.Figure, []string, error) {
	counted, err := b.during(ctx, topicAccount, b.size.quiet)
	if err != nil {
		return nil, nil, err
	}
	if !counted.known {
		return nil, []string{uncounted("topic operator")}, nil
	}
	const how = "the API server's audit log, requests of the topic operator's ServiceAccount after all topics were ready"
	return []report.Figure{
		report.AtMost(fmt.Sprintf("%d topics, writes beside its Lease in %s", b.size.topics, b.size.quiet), float64(len(counted.writes)), 0, "requests", how),
		report.Observed(fmt.Sprintf("%d topics, reads in %s", b.size.topics, b.size.quiet), float64(counted.reads), "requests", how),
	}, nil, nil
}

// createTopics creates topics and one more that Kafka rejects.
func (b *bench) createTopics(ctx context.Context, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(appliers)
	for i := range count + 1 {
		group.Go(func() error {
			topic := &kafkav1.KafkaTopic{ObjectMeta: b.kafka.Meta(fmt.Sprintf("topic-%05d", i))}
			topic.Labels = map[string]string{"strimzi.io/cluster": cluster}
			topic.Spec = kafkav1.KafkaTopicSpec{Partitions: new(int32(1)), Replicas: new(int32(1))}
			if i == 0 {
				topic.Spec.Config = kafkav1.TopicConfig{"retention.ms": "1 week"}
			}
			return b.kube.Create(ctx, topic)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	return nil
}

// untilTopicsReady waits until so many topics are ready and the other one is rejected.
func (b *bench) untilTopicsReady(ctx context.Context, count int) error {
	return harness.Poll(ctx, func() (bool, error) {
		list := &kafkav1.KafkaTopicList{}
		if err := b.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, fmt.Errorf("listing topics: %w", err)
		}
		ready, rejected := 0, 0
		for i := range list.Items {
			switch {
			case isTopic(&list.Items[i], condition.True, ""):
				ready++
			case isTopic(&list.Items[i], condition.False, "KafkaError"):
				rejected++
			}
		}
		return ready == count && rejected == 1, nil
	})
}

func isTopic(topic *kafkav1.KafkaTopic, status condition.Status, reason string) bool {
	return slices.ContainsFunc(topic.Status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.Ready && c.Status == status && c.Reason == reason
	})
}

// noTopics deletes all topics and waits until they are gone.
func (b *bench) noTopics(ctx context.Context) error {
	if err := b.kube.DeleteAllOf(ctx, &kafkav1.KafkaTopic{}, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("deleting topics: %w", err)
	}
	return harness.Poll(ctx, func() (bool, error) {
		list := &kafkav1.KafkaTopicList{}
		err := b.kube.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		return err == nil && len(list.Items) == 0, err
	})
}

// errNoLeader is an installation of which no process leads.
var errNoLeader = errors.New("no pod leads")

// leading is what the leading process of a Deployment has taken so far.
func (b *bench) leading(ctx context.Context, process string) (usage, error) {
	pods, err := b.kube.ProcessPods(ctx, process)
	if err != nil {
		return usage{}, err
	}
	usages, err := b.usagesOf(ctx, pods)
	if err != nil {
		return usage{}, err
	}
	for _, used := range usages {
		if used.leader {
			return used, nil
		}
	}
	return usage{}, fmt.Errorf("looking for the leader of %s: %w", process, errNoLeader)
}
