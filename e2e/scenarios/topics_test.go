package scenarios

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

const myTopic = "my-topic"

// topicsCreatedAndChanged: topics of Kafka follow KafkaTopics by a topic operator of the chart, and what cannot be done is
// said and loses nothing.
func topicsCreatedAndChanged(s *stage) {
	s.fromScratch()
	s.installWith(map[string]any{"topicOperators": []map[string]string{{"namespace": s.kafka.Namespace, "cluster": clusterName}}})
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.apply(manifest)
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()

	s.createTopic(myTopic, kafkav1.KafkaTopicSpec{
		TopicName: "My.Topic", Partitions: new(int32(3)), Replicas: new(int32(3)),
		Config: kafkav1.TopicConfig{"retention.ms": "7200000", "cleanup.policy": "compact,delete"},
	})
	s.step("created", func() error { return s.untilTopicReady(myTopic) })
	s.holdsTopic(admin, "My.Topic", 3, map[string]string{"retention.ms": "7200000", "cleanup.policy": "compact,delete"})

	s.step("changed", func() error {
		err := s.changeTopic(map[string]any{"partitions": 5, "config": map[string]any{"retention.ms": 3600000, "cleanup.policy": nil}})
		if err != nil {
			return err
		}
		return s.untilTopicReady(myTopic)
	})
	s.holdsTopic(admin, "My.Topic", 5, map[string]string{"retention.ms": "3600000"})

	s.step("changed in Kafka and put back", func() error {
		_, err := admin.AlterTopicConfigs(s.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: new("1")}}, "My.Topic")
		if err != nil {
			return err
		}
		return s.untilConfig(admin, "My.Topic", map[string]string{"retention.ms": "3600000"})
	})

	s.step("fewer partitions are not supported", func() error {
		if err := s.changeTopic(map[string]any{"partitions": 2}); err != nil {
			return err
		}
		return s.untilTopic(myTopic, "NotSupported", func(c condition.Condition) bool {
			return c.Status == condition.False && strings.Contains(c.Message, "5 partitions")
		})
	})
	s.holdsTopic(admin, "My.Topic", 5, map[string]string{"retention.ms": "3600000"})

	s.step("deleted in Kafka and created again", func() error {
		if _, err := admin.DeleteTopics(s.ctx, "My.Topic"); err != nil {
			return err
		}
		return s.untilTopic(myTopic, "TopicRecreated", func(c condition.Condition) bool { return c.Type == condition.Warning })
	})
	s.step("deleted", func() error {
		if err := s.changeTopic(map[string]any{"partitions": 2}); err != nil {
			return err
		}
		return s.deleteTopic(admin, myTopic, "My.Topic")
	})
}

// topicsThroughARotation creates, changes and deletes a topic again and again while both CAs get new keys. The topic operator
// shares its pod with a user operator, which serves users before and after.
func topicsThroughARotation(s *stage) {
	s.createsWithOperators(map[string]any{"topicOperator": map[string]any{}, "userOperator": map[string]any{}})
	s.createTopic(allowedTopic, kafkav1.KafkaTopicSpec{Partitions: new(int32(1)), Replicas: new(int32(1))})
	s.step("a topic for users", func() error { return s.untilTopicReady(allowedTopic) })
	s.servesUser("before", "scram", kafkav1.UserSCRAM)
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	before := s.operatorPod()
	for _, a := range []harness.Authority{harness.ClusterCA, harness.ClientsCA} {
		outgoing, err := s.kafka.Signer(s.ctx, a)
		s.must(err)
		s.step("asked for a new key of the "+string(a), func() error { return s.kafka.Replace(s.ctx, a) })
		s.step("topics while the "+string(a)+" gets a new key", func() error {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%s-%d", a, i)
				if err := s.liveTopic(admin, name); err != nil {
					return fmt.Errorf("topic %s: %w", name, err)
				}
				kafka, err := s.kafka.Resource(s.ctx)
				if err != nil {
					return err
				}
				now, err := s.kafka.Trust(s.ctx, a)
				if err != nil {
					return err
				}
				phase, _ := a.Phase(kafka)
				if a.Turned(now, []*x509.Certificate{outgoing.Certificate()}) && slices.Contains(harness.SettledPhases(), phase) {
					s.notes = append(s.notes, fmt.Sprintf("%d topics were created, changed and deleted while the %s got a new key", i+1, a))
					return nil
				}
			}
		})
	}
	after := s.operatorPod()
	if before.UID != after.UID || restarts(after) > 0 {
		s.Errorf("the operators were restarted: pod %s became %s, with %d restarts", before.Name, after.Name, restarts(after))
	}
	s.servesUser("afterwards", "mtls", kafkav1.UserTLS)
}

// liveTopic is the whole life of a topic. Whatever its status says against it on the way fails the scenario.
func (s *stage) liveTopic(admin *harness.Admin, name string) error {
	s.createTopic(name, kafkav1.KafkaTopicSpec{Partitions: new(int32(1)), Replicas: new(int32(3))})
	if err := s.readyAtOnce(name); err != nil {
		return err
	}
	if err := s.kube.MergePatch(s.ctx, s.topic(name), map[string]any{"spec": map[string]any{"partitions": 2}}); err != nil {
		return err
	}
	if err := s.readyAtOnce(name); err != nil {
		return err
	}
	return s.deleteTopic(admin, name, name)
}

// readyAtOnce waits until a topic is as its spec says, and takes any problem on the way for a failure.
func (s *stage) readyAtOnce(name string) error {
	var failure error
	err := s.untilObject(&kafkav1.KafkaTopicList{}, name, func(object client.Object) bool {
		topic, is := object.(*kafkav1.KafkaTopic)
		if !is || topic.Status.ObservedGeneration != topic.Generation {
			return false
		}
		for _, c := range topic.Status.Conditions {
			if c.Type != condition.Ready {
				continue
			}
			if c.Status != condition.True {
				failure = fmt.Errorf("%s: %s", c.Reason, c.Message)
			}
			return true
		}
		return false
	})
	return errors.Join(err, failure)
}

// topicsDeletedInEveryOrder: no order of deletions leaves an object or a namespace behind, and topics go with their
// KafkaTopics alone.
func topicsDeletedInEveryOrder(s *stage) {
	s.createsWithTopicOperator()
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	for _, name := range []string{"deleted", "unmanaged", "left"} {
		s.createTopic(name, kafkav1.KafkaTopicSpec{Partitions: new(int32(1)), Replicas: new(int32(1))})
		s.step(name+" created", func() error { return s.untilTopicReady(name) })
	}
	s.step("a topic first", func() error { return s.deleteTopic(admin, "deleted", "deleted") })
	s.step("a KafkaTopic that is not managed", func() error {
		if err := s.kube.Annotate(s.ctx, s.topic("unmanaged"), map[string]string{"strimzi.io/managed": "false"}); err != nil {
			return err
		}
		if err := s.untilTopic("unmanaged", "Unmanaged", func(c condition.Condition) bool { return c.Type == condition.Unmanaged }); err != nil {
			return err
		}
		return s.deleteObject("unmanaged")
	})
	s.holdsTopic(admin, "unmanaged", 1, map[string]string{})
	s.step("the Kafka, and then its topic", func() error {
		if err := s.kube.Delete(s.ctx, &kafkav1.Kafka{ObjectMeta: s.meta(clusterName)}); err != nil {
			return err
		}
		return s.deleteObject("left")
	})
	s.step("the namespace, the second time", func() error { return s.kube.DeleteNamespace(s.ctx, s.kafka.Namespace) })

	s.createsWithTopicOperator()
	s.createTopic(myTopic, kafkav1.KafkaTopicSpec{Partitions: new(int32(1)), Replicas: new(int32(1))})
	s.step("created again", func() error { return s.untilTopicReady(myTopic) })
	s.step("the namespace with all that is in it", func() error { return s.kube.DeleteNamespace(s.ctx, s.kafka.Namespace) })
}

// createsWithTopicOperator makes a cluster with a topic operator beside the nodes.
func (s *stage) createsWithTopicOperator() {
	s.Helper()
	s.createsWithOperators(map[string]any{"topicOperator": map[string]any{}})
}

// createsWithOperators makes a cluster with operators beside the nodes.
func (s *stage) createsWithOperators(entityOperator map[string]any) {
	s.Helper()
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.must(manifest.Set("Kafka", clusterName, entityOperator, "spec", "entityOperator"))
	s.create(manifest)
}

func (s *stage) topic(name string) *kafkav1.KafkaTopic {
	topic := &kafkav1.KafkaTopic{ObjectMeta: s.meta(name)}
	topic.Labels = map[string]string{harness.ClusterLabel: clusterName}
	return topic
}

func (s *stage) createTopic(name string, spec kafkav1.KafkaTopicSpec) {
	s.Helper()
	topic := s.topic(name)
	topic.Spec = spec
	s.must(s.kube.Create(s.ctx, topic))
}

func (s *stage) changeTopic(spec map[string]any) error {
	return s.kube.MergePatch(s.ctx, s.topic(myTopic), map[string]any{"spec": spec})
}

// deleteTopic deletes a KafkaTopic, and waits until it and its topic in Kafka are gone.
func (s *stage) deleteTopic(admin *harness.Admin, object, name string) error {
	if err := s.deleteObject(object); err != nil {
		return err
	}
	return s.untilPartitions(admin, name, 0) // the controllers have deleted it, and brokers learn of that
}

// deleteObject deletes a KafkaTopic and waits until it is gone.
func (s *stage) deleteObject(name string) error {
	if err := s.kube.Delete(s.ctx, s.topic(name)); err != nil {
		return err
	}
	return harness.Poll(s.ctx, func() (bool, error) {
		err := s.kube.Get(s.ctx, s.kafka.Key(name), &kafkav1.KafkaTopic{})
		return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
}

func (s *stage) untilTopicReady(name string) error {
	return s.untilTopic(name, "", func(c condition.Condition) bool { return c.Type == condition.Ready && c.Status == condition.True })
}

// untilTopic waits for a condition with the reason in a status that is about the present spec.
func (s *stage) untilTopic(name, reason string, holds func(condition.Condition) bool) error {
	return s.untilObject(&kafkav1.KafkaTopicList{}, name, func(object client.Object) bool {
		topic, is := object.(*kafkav1.KafkaTopic)
		return is && topic.Status.ObservedGeneration == topic.Generation &&
			slices.ContainsFunc(topic.Status.Conditions, func(c condition.Condition) bool { return c.Reason == reason && holds(c) })
	})
}

// holdsTopic compares a topic in Kafka with the partitions and the settings that it shall have.
func (s *stage) holdsTopic(admin *harness.Admin, name string, partitions int, config map[string]string) {
	s.Helper()
	s.step("partitions and settings of "+name, func() error {
		return errors.Join(s.untilPartitions(admin, name, partitions), s.untilConfig(admin, name, config))
	})
}

// kafkaLearns is longer than brokers take to learn of a change, and the topic operator of one by others.
const kafkaLearns = 2 * time.Minute

// untilPartitions waits until a broker says that a topic has so many partitions.
func (s *stage) untilPartitions(admin *harness.Admin, topic string, want int) error {
	began := time.Now()
	return harness.Poll(s.ctx, func() (bool, error) {
		topics, err := admin.ListTopics(s.ctx, topic)
		if err != nil {
			return false, err
		}
		got := len(topics[topic].Partitions)
		if got != want && time.Since(began) > kafkaLearns {
			return false, fmt.Errorf("topic %s has %d partitions, not %d", topic, got, want)
		}
		return got == want, nil
	})
}

// untilConfig waits until a broker says that a topic sets this and nothing else.
func (s *stage) untilConfig(admin *harness.Admin, topic string, want map[string]string) error {
	began := time.Now()
	return harness.Poll(s.ctx, func() (bool, error) {
		described, err := admin.DescribeTopicConfigs(s.ctx, topic)
		if err != nil {
			return false, err
		}
		got := map[string]string{}
		for _, setting := range described[0].Configs {
			if setting.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				got[setting.Key] = setting.MaybeValue()
			}
		}
		isSame := fmt.Sprint(got) == fmt.Sprint(want)
		if !isSame && time.Since(began) > kafkaLearns {
			return false, fmt.Errorf("topic %s sets %v, not %v", topic, got, want)
		}
		return isSame, nil
	})
}

// operatorPod is the pod of the operators beside the nodes.
func (s *stage) operatorPod() *corev1.Pod {
	s.Helper()
	pods := &corev1.PodList{}
	s.must(s.kube.List(s.ctx, pods, client.InNamespace(s.kafka.Namespace), client.MatchingLabels{"strimzi.io/name": clusterName + "-entity-operator"}))
	if len(pods.Items) != 1 {
		s.Fatalf("%d pods of the operators beside the nodes, want one", len(pods.Items))
	}
	return &pods.Items[0]
}
