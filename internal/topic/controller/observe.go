package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// observe reads what a decision about a topic depends on, but for what Kafka holds.
func (r *Reconciler) observe(ctx context.Context, topic *kafkav1.KafkaTopic, now time.Time) (model.Observed, error) {
	o := model.Observed{Topic: topic, Cluster: r.options.Cluster.Name, Now: now}
	kafka, _, err := r.kafka(ctx)
	if err != nil {
		return model.Observed{}, err
	}
	if !isAlive(kafka) && r.hold(topic).isAny() {
		// What the cache does not show may exist.
		if kafka, _, err = kube.Read[kafkav1.Kafka](ctx, r.options.Live, r.options.Cluster); err != nil {
			return model.Observed{}, fmt.Errorf("looking for the Kafka of KafkaTopic %s: %w", topic.Name, err)
		}
	}
	if isAlive(kafka) {
		o.Kafka = kafka
	}
	o.Others, err = r.others(ctx, topic)
	return o, err
}

// kafka is the cluster of the topics, and whether it exists.
func (r *Reconciler) kafka(ctx context.Context) (*kafkav1.Kafka, bool, error) {
	kafka, exists, err := kube.Read[kafkav1.Kafka](ctx, r.options.Client, r.options.Cluster)
	if err != nil {
		return nil, false, fmt.Errorf("looking for Kafka %s: %w", r.options.Cluster, err)
	}
	return kafka, exists, nil
}

// isAlive reports whether there is a Kafka to keep topics in.
func isAlive(kafka *kafkav1.Kafka) bool { return kafka != nil && kafka.DeletionTimestamp.IsZero() }

// others are the other KafkaTopics that are about the same topic, by their names.
func (r *Reconciler) others(ctx context.Context, topic *kafkav1.KafkaTopic) ([]*kafkav1.KafkaTopic, error) {
	found := map[string]*kafkav1.KafkaTopic{}
	for _, name := range model.Names(topic) {
		var list kafkav1.KafkaTopicList
		err := r.options.Client.List(ctx, &list, client.InNamespace(r.options.Cluster.Namespace), client.MatchingFields{NameIndex: name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the KafkaTopics of topic %s: %w", name, err)
		}
		for i := range list.Items {
			if list.Items[i].Name != topic.Name && r.isNamedBy(&list.Items[i]) {
				found[list.Items[i].Name] = &list.Items[i]
			}
		}
	}
	others := make([]*kafkav1.KafkaTopic, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		others = append(others, found[name])
	}
	return others, nil
}

// version is what the cache shows of everything that a decision about a topic depends on.
type version struct {
	uid        types.UID
	generation int64
	metadata   string
	kafka      string
	// others is what counts of the other KafkaTopics of the topic.
	others string
	hold   hold
	// isDeleted: the object is deleted, and waits.
	isDeleted bool
	// hasDeparted: another topic operator says that the topic is not its any more.
	hasDeparted bool
	// unnoticed is which watches are denied.
	unnoticed string
}

// hold is what keeps an object.
type hold struct{ isKept, isForeign bool }

func (h hold) isAny() bool { return h.isKept || h.isForeign }

func (r *Reconciler) hold(topic *kafkav1.KafkaTopic) hold {
	isKept := model.IsKeptFor(topic, r.options.Cluster.Name)
	return hold{isKept: isKept, isForeign: model.IsForeign(topic)}
}

func (r *Reconciler) version(ctx context.Context, topic *kafkav1.KafkaTopic) (version, error) {
	v := version{
		uid: topic.UID, generation: topic.Generation, metadata: fmt.Sprint(topic.Labels, model.Requests(topic)),
		hold: r.hold(topic), isDeleted: !topic.DeletionTimestamp.IsZero(), hasDeparted: model.HasDeparted(topic.Status), unnoticed: textOf(r.unnoticed()),
	}
	kafka, exists, err := r.kafka(ctx)
	if err != nil {
		return version{}, err
	}
	if exists {
		v.kafka = fmt.Sprint(kafka.UID, isAlive(kafka))
	}
	others, err := r.others(ctx, topic)
	if err != nil {
		return version{}, err
	}
	var shown strings.Builder
	for _, other := range others {
		shown.WriteString(model.ClaimOf(other) + " ")
	}
	v.others = shown.String()
	return v, nil
}
