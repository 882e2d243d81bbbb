package apitest

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/kube"
)

func TestATopicWithWhichBrokersDoNotStartHoldsTheUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before4()
	w.topic("wide", 0, 1, 2)
	w.topic("narrow", 0, 1, 2)
	w.kafka.Configure("narrow", topics.SegmentBytes, "1048575")

	w.patchKafka(map[string]any{"version": "4.3.1"})
	w.run(5)

	w.wantReason(condition.NotReady, model.ReasonInvalidResource, "segment.bytes below 1048576", "these have: narrow", "Kafka 4.3.1", "stays on the version that it runs")
	w.wantVersion("3.9.2", 0)

	w.kafka.Configure("narrow", topics.SegmentBytes, "1048576")
	w.clock.SetTime(w.clock.Now().Add(kube.Unwatched))
	w.settle()

	w.wantVersion("4.3.1", 3)
}

func TestAnUpgradeWaitsWhileKafkaCannotBeAskedForItsTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before4()
	w.kafka.Fail(&admin.UnreachableError{Address: "all brokers", Err: errors.New("no broker answers")})

	w.patchKafka(map[string]any{"version": "4.3.1"})
	failed := 0
	for range 5 {
		if _, err := w.round(t.Context()); err != nil {
			failed++
		}
		w.goOn(t.Context())
	}

	w.wantVersion("3.9.2", 0)
	if failed == 0 {
		t.Error("the operator is content, want that it tries again")
	}

	w.kafka.Fail(nil)
	for range 3 { // what it has been told before counts for a moment
		_, _ = w.round(t.Context())
		w.goOn(t.Context())
	}
	w.settle()

	w.wantVersion("4.3.1", 3)
}

func TestAVersionThatHasNeverRunGivesWayToAnyOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kafka.Fail(&admin.UnreachableError{Address: "all brokers", Err: errors.New("no broker answers")})
	w.settings.Versions = append(w.settings.Versions, model.KafkaVersion{Name: "3.9.2", Image: "kafka:3.9.2"})
	w.startOperator()
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Version = "3.9.2"
	w.create(kafka, poolResource(w.namespace, "dual", 3, "controller", "broker"))
	w.run(5)

	w.patchKafka(map[string]any{"version": "4.3.1"})
	w.run(3)

	var set podsetv1.StrimziPodSet
	w.get("my-dual", &set)
	if !strings.Contains(string(set.Spec.Pods[0].Raw), "kafka:4.3.1") {
		t.Error("the pods that are described have the version that has never run")
	}
}

// before4 is a running cluster of a version whose brokers start with any topic.
func (w *world) before4() {
	w.t.Helper()
	w.settings.Versions = append(w.settings.Versions, model.KafkaVersion{Name: "3.9.2", Image: "kafka:3.9.2"})
	w.startOperator()
	level := release.MetadataVersion("3.9-IV0").Level()
	w.kafka.SetMetadataVersion(level, release.MetadataVersion("4.3-IV0").Level())
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Version = "3.9.2"
	w.create(kafka, poolResource(w.namespace, "dual", 3, "controller", "broker"))
	w.settle()
}

// wantVersion wants all pods to run a version, and so many to have been restarted.
func (w *world) wantVersion(version string, restarted int) {
	w.t.Helper()
	for name := range w.podUIDs() {
		var pod corev1.Pod
		w.get(name, &pod)
		if got := pod.Annotations[model.KafkaVersionAnnotation]; got != version {
			w.t.Errorf("pod %s runs %s, want %s", name, got, version)
		}
	}
	if got := len(w.faulty.podsDeleted); got != restarted {
		w.t.Errorf("restarted: %v, want %d", w.faulty.podsDeleted, restarted)
	}
}
