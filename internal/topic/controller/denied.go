package controller

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// unnoticed are the warnings about watches that are denied and on which topics depend.
func (r *Reconciler) unnoticed() []model.Remark {
	denials := r.options.Watches.Denied(r.options.Cluster.Namespace,
		kafkav1.GroupVersion.WithResource("kafkatopics").GroupResource(), kafkav1.GroupVersion.WithResource("kafkas").GroupResource())
	warnings := make([]model.Remark, 0, len(denials))
	for _, denial := range denials {
		warnings = append(warnings, model.Remark{Reason: model.WatchDenied, Message: denial.Report("the topic operator",
			"Changes are not noticed: the topic is kept as it was seen last.")})
	}
	return warnings
}

// textOf are the messages of warnings.
func textOf(warnings []model.Remark) string {
	var text strings.Builder
	for _, warning := range warnings {
		text.WriteString(warning.Message)
	}
	return text.String()
}

// refreshStatus reads the status of a topic past the cache, which shows an old one while KafkaTopics are not watched and a moment
// after that. What the topic asks for stays that of the cache.
func (r *Reconciler) refreshStatus(ctx context.Context, topic *kafkav1.KafkaTopic, unnoticed []model.Remark) error {
	name := client.ObjectKeyFromObject(topic)
	if last, _ := r.memory.Of(name); len(unnoticed) == 0 && last.version.unnoticed == "" {
		return nil
	}
	var stored kafkav1.KafkaTopic
	switch err := r.options.Live.Get(ctx, name, &stored); {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the status of KafkaTopic %s: %w", name, err)
	}
	topic.Status = stored.Status
	return nil
}

// topicsByWatches has all topics reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) topicsByWatches() source.Source {
	return r.options.Watches.Dependents(func(ctx context.Context) ([]types.NamespacedName, error) {
		requests := r.allTopics(ctx, nil)
		names := make([]types.NamespacedName, 0, len(requests))
		for _, request := range requests {
			names = append(names, request.NamespacedName)
		}
		return names, nil
	})
}
