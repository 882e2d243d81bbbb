package controller

import (
	"fmt"
	"maps"
	"slices"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/kube"
)

// checkTopics lets the cluster stand, before its first node is restarted into a version, while Kafka holds a topic with which brokers of
// that version do not start. While Kafka cannot be asked there may be one.
func (r *Reconciler) checkTopics(c *decided) error {
	if c.isDegraded() {
		return nil // no node is restarted into another version
	}
	limits := release.NewTopicLimits(c.cluster.Version.Name, versionsOfPods(c.desired))
	if len(limits) == 0 {
		return nil
	}
	answers := r.surveyOf(c.observation, survey.Topics())
	if !answers.isFresh {
		return errUnpolled
	}
	err := answers.unanswered[survey.AboutTopics]
	switch {
	case err != nil && c.kafka.Status.KafkaMetadataVersion == "":
		return nil // it has never answered: a version that does not start must give way to another one
	case err != nil:
		err = fmt.Errorf("the cluster stays on the version that it runs, because Kafka cannot be asked for topics with which brokers of %s do not start; it is tried again: %w",
			c.cluster.Version.Name, err)
	default:
		err = refuseTopics(c.desired, limits, answers.Topics)
	}
	if err == nil || !c.useLastKnown() {
		return err
	}
	c.unfit = err
	c.decideTrust()
	c.wake(c.now.Add(kube.Unwatched)) // no event tells of a change of a topic
	return nil
}

// versionsOfPods are the versions that those pods were made for that there are.
func versionsOfPods(c *desired) []string {
	var versions []string
	for _, node := range c.cluster.Nodes {
		if pod, exists := c.pods[node.Pod]; exists {
			versions = append(versions, pod.Annotations[model.KafkaVersionAnnotation])
		}
	}
	return versions
}

// refuseTopics names the topics that are below a limit.
func refuseTopics(c *desired, limits []release.Limit, held map[string]topics.Topic) error {
	refused := &model.InvalidResourceError{}
	for _, limit := range limits {
		var below []string
		for _, name := range slices.Sorted(maps.Keys(held)) {
			if value, isNumber := topics.Integer(held[name].Config[limit.Key]); isNumber && value < limit.AtLeast {
				below = append(below, excerpt.Of(name, excerpt.Foreign))
			}
		}
		if len(below) == 0 {
			continue
		}
		refused.Findings = append(refused.Findings, model.Finding{
			Object: "Kafka " + c.kafka.Namespace + "/" + c.kafka.Name, Reason: model.ReasonInvalidResource,
			Message: fmt.Sprintf("brokers of Kafka %s do not start while a topic has %s below %d, as these have: %s. Raise it, or remove it for the default; until then the cluster stays on the version that it runs",
				c.cluster.Version.Name, limit.Key, limit.AtLeast, excerpt.List(below, ", ", excerpt.Listed)),
		})
	}
	if len(refused.Findings) == 0 {
		return nil
	}
	return refused
}
