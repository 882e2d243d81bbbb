package controller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/podset"
)

// PodMaker is this controller to the one that makes the pods that it describes.
func PodMaker(settings model.Settings) podset.Maker {
	return podset.Maker{
		FieldOwner: fieldOwner, Owner: kafkaKind(),
		ServiceAccount: func(kafka string) string { return model.Names{Cluster: kafka}.Kafka() },
		Render:         podRenderer{settings}.render,
	}
}

// podRenderer makes pods of their descriptions, which others may have written.
type podRenderer struct{ settings model.Settings }

func (r podRenderer) render(ctx context.Context, live client.Reader, set *podsetv1.StrimziPodSet, owner string, described []corev1.Pod) (pods []corev1.Pod, why []string, err error) {
	var kafka kafkav1.Kafka
	key := types.NamespacedName{Namespace: set.Namespace, Name: owner}
	if err := live.Get(ctx, key, &kafka); err != nil {
		return nil, nil, fmt.Errorf("reading Kafka %s: %w", key, err)
	}
	description := model.Description{Kafka: &kafka, Settings: r.settings, PodSet: set.Name}
	if description.Pool, err = r.pool(ctx, live, &kafka, set); err != nil && !errors.Is(err, errNoPool) {
		return nil, nil, err
	}
	var refused podset.Refusals
	for i := range described {
		description.Pod = &described[i]
		pod, err := description.Render()
		if err != nil {
			why, remedy := undescribed(err)
			refused.Add(described[i].Name, why, remedy)
			continue
		}
		pods = append(pods, pod)
	}
	return pods, refused.Sentences(), nil
}

// undescribed says why no pod is made from a description, and what can be done about it.
func undescribed(err error) (why, remedy string) {
	if wrong, is := errors.AsType[*model.DescriptionError](err); is {
		return "is " + wrong.Why(), wrong.Remedy
	}
	return "is not made: " + err.Error(), ""
}

// errNoPool means that the pool of a set is gone, or has become another cluster's.
var errNoPool = errors.New("its KafkaNodePool is gone")

// pool is the resource that a set is made for. The error is errNoPool when there is none
// any more.
func (podRenderer) pool(ctx context.Context, live client.Reader, kafka *kafkav1.Kafka, set *podsetv1.StrimziPodSet) (*kafkav1.KafkaNodePool, error) {
	var pool kafkav1.KafkaNodePool
	key := types.NamespacedName{Namespace: set.Namespace, Name: poolOf(kafka.Name, set)}
	err := live.Get(ctx, key, &pool)
	switch {
	case apierrors.IsNotFound(err), err == nil && pool.Labels[model.ClusterLabel] != kafka.Name:
		return nil, errNoPool
	case err != nil:
		return nil, fmt.Errorf("reading KafkaNodePool %s: %w", key, err)
	}
	return &pool, nil
}
