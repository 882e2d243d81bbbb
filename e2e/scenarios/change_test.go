package scenarios

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/rotation"
)

// change changes the specification of the Kafka resource.
func (s *stage) change(spec map[string]any) error {
	kafka := &kafkav1.Kafka{ObjectMeta: s.kafka.Meta(s.kafka.Name)}
	return s.kube.MergePatch(s.ctx, kafka, map[string]any{"spec": spec})
}

// annotate annotates the Kafka resource; an empty value takes the annotation away.
func (s *stage) annotate(name, value string) error {
	kafka := &kafkav1.Kafka{ObjectMeta: s.kafka.Meta(s.kafka.Name)}
	return s.kube.Annotate(s.ctx, kafka, map[string]string{name: value})
}

// rolls does something and waits until it has restarted all nodes.
func (s *stage) rolls(what string, do func() error) {
	s.Helper()
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.step(what, func() error {
		if err := do(); err != nil {
			return err
		}
		if err := s.kafka.UntilReplaced(s.ctx, before); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
}

// loads does something and waits until every node has loaded what was published
// after it, in whichever way.
func (s *stage) loads(what string, do func() error) {
	s.Helper()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	before, err := s.kafka.Reports(s.ctx, opened)
	s.must(err)
	s.step(what, func() error {
		if err := do(); err != nil {
			return err
		}
		err := harness.Poll(s.ctx, func() (bool, error) {
			now, err := s.kafka.Reports(s.ctx, opened)
			if err != nil {
				return false, s.ctx.Err() // a node that restarts does not answer
			}
			for name, report := range before {
				if now[name].Revision <= report.Revision {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("waiting until every node has loaded what is published: %w", err)
		}
		return s.kafka.UntilSettled(s.ctx)
	})
}

// configFollows changes a property that brokers read when they start.
func configFollows(s *stage) {
	s.onShared()
	const key, value = "log.cleaner.threads", "2"
	s.underLoad(harness.EveryKind()...)
	s.rolls("property changed", func() error {
		return s.change(map[string]any{"kafka": map[string]any{"config": map[string]any{key: 2}}})
	})
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 1)

	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	described, err := admin.DescribeBrokerConfigs(s.ctx, 0, 1, 2)
	s.must(err)
	for _, broker := range described {
		for _, entry := range broker.Configs {
			if entry.Key == key && entry.MaybeValue() != value {
				s.Errorf("broker %s has %s=%s", broker.Name, key, entry.MaybeValue())
			}
		}
	}
}

// versionFollows takes a cluster from one version of Kafka to the next.
func versionFollows(s *stage) {
	const from, to, metadataFrom, metadataTo = "4.2.1", "4.3.1", "4.2-IV1", "4.3-IV0"
	manifest := s.example("kafka-dual-role.yaml")
	s.must(manifest.Set("Kafka", clusterName, from, "spec", "kafka", "version"))
	s.create(manifest)
	s.step("metadata version known", func() error { return s.untilVersion(from, metadataFrom) })

	s.underLoad(harness.EveryKind()...)
	s.step("first node on the new version", func() error {
		if err := s.change(map[string]any{"kafka": map[string]any{"version": to}}); err != nil {
			return err
		}
		return s.untilReplaced(1)
	})
	kafka, err := s.kafka.Resource(s.ctx)
	s.must(err)
	if kafka.Status.KafkaMetadataVersion != metadataFrom || kafka.Status.KafkaVersion != from {
		s.Errorf("with nodes of both versions the status says %s and %s, to be %s and %s",
			kafka.Status.KafkaVersion, kafka.Status.KafkaMetadataVersion, from, metadataFrom)
	}
	s.step("metadata version raised", func() error { return s.untilVersion(to, metadataTo) })
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 1)
}

// oldestToNewest takes a cluster from the oldest version of Kafka to the newest, release by release, and back by one,
// while clients work. On the first 4.0 the cluster CA gets a new key.
func oldestToNewest(s *stage) {
	const oldest, first, newest = "3.9.2", "4.0.0", "4.3.1"
	upgrades := []struct{ version, metadata string }{{first, "4.0-IV3"}, {"4.1.2", "4.1-IV1"}, {"4.2.1", "4.2-IV1"}}
	back := upgrades[len(upgrades)-1]
	s.step("images loaded", func() error { return s.kube.LoadKafka(s.ctx, oldest, first, upgrades[1].version) })
	manifest := s.example("kafka-dual-role.yaml")
	s.must(manifest.Set("Kafka", clusterName, oldest, "spec", "kafka", "version"))
	s.create(manifest)
	s.step("metadata version known", func() error { return s.untilVersion(oldest, "3.9-IV0") })

	s.underLoad(harness.EveryKind()...)
	s.heldByATopic(first)
	for _, to := range upgrades {
		s.becomes(to.version, to.metadata, map[string]any{"version": to.version})
		if to.version == first {
			s.replacesKey(harness.ClusterCA)
		}
	}
	s.becomes(newest, back.metadata, map[string]any{"version": newest, "metadataVersion": back.metadata})
	s.becomes(back.version, back.metadata, map[string]any{"version": back.version})
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), len(upgrades)+2)
}

// becomes changes the version of the cluster and waits until all nodes run it.
func (s *stage) becomes(version, metadata string, kafka map[string]any) {
	s.Helper()
	s.step("on "+version+" with metadata version "+metadata, func() error {
		if err := s.change(map[string]any{"kafka": kafka}); err != nil {
			return err
		}
		if err := s.untilVersion(version, metadata); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
}

// heldByATopic asks for a version whose brokers do not start with a topic that there is, and mends the topic when that is told.
func (s *stage) heldByATopic(version string) {
	s.Helper()
	const topic = "narrow"
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.step("an upgrade that a topic holds", func() error {
		small := "1024"
		if _, err := admin.CreateTopic(s.ctx, 1, -1, map[string]*string{topics.SegmentBytes: &small}, topic); err != nil {
			return fmt.Errorf("creating topic %s: %w", topic, err)
		}
		if err := s.change(map[string]any{"kafka": map[string]any{"version": version}}); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "names the topic", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.NotReady, topics.SegmentBytes, topic, version)
		})
	})
	after, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if !maps.Equal(before, after) {
		s.Errorf("pods were %v and are %v although the upgrade is held", before, after)
	}
	s.step("the topic mended", func() error {
		enough := strconv.Itoa(topics.SmallestSegment)
		_, err := admin.AlterTopicConfigs(s.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: topics.SegmentBytes, Value: &enough}}, topic)
		return err
	})
}

// replacesKey gives an authority a new key and waits until the old one is out of use.
func (s *stage) replacesKey(a harness.Authority) {
	s.Helper()
	outgoing, err := s.kafka.Signer(s.ctx, a)
	s.must(err)
	s.step("a new key of the "+string(a), func() error {
		if err := s.kafka.Replace(s.ctx, a); err != nil {
			return err
		}
		told, err := s.kafka.UntilTurned(s.ctx, a, []*x509.Certificate{outgoing.Certificate()}, authorities.RaftRestartsPending, rotation.Trusted)
		s.notes = append(s.notes, told)
		return err
	})
}

func (s *stage) untilVersion(version, metadata string) error {
	return s.kafka.Until(s.ctx, fmt.Sprintf("runs %s with metadata version %s", version, metadata), func(kafka *kafkav1.Kafka) bool {
		return kafka.Status.KafkaVersion == version && kafka.Status.KafkaMetadataVersion == metadata
	})
}

// untilReplaced waits for so many ready pods of the shape that was asked for last:
// those made after now.
func (s *stage) untilReplaced(count int) error {
	before, err := s.kafka.Pods(s.ctx)
	if err != nil {
		return err
	}
	return s.kafka.UntilPods(s.ctx, fmt.Sprintf("are replaced, %d of them", count), func(pods map[string]*corev1.Pod) bool {
		replaced := 0
		for name, uid := range before {
			if harness.Replaced(pods[name], uid) {
				replaced++
			}
		}
		return replaced >= count
	})
}

// stuckNodeBlocks asks for an image that does not exist, and takes it back.
func stuckNodeBlocks(s *stage) {
	s.onShared()
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.underLoad(harness.EveryKind()...)
	s.step("stuck, and said so", func() error {
		if err := s.change(map[string]any{"kafka": map[string]any{"image": "keyturn.dev/kafka:does-not-exist"}}); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "is blocked by a stuck pod", harness.Blocked("is stuck"))
	})
	during, err := s.kafka.Pods(s.ctx)
	s.must(err)
	replaced := differing(before, during)
	if len(replaced) != 1 {
		s.Fatalf("%q were replaced by pods with an image that does not exist, to be replaced is one", replaced)
	}
	s.step("replaced when its specification was put right", func() error {
		if err := s.change(map[string]any{"kafka": map[string]any{"image": nil}}); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
	after, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if now := differing(before, after); len(now) != 1 || now[0] != replaced[0] {
		s.Errorf("%q were replaced in the end, to be replaced was %q only", now, replaced)
	}
	s.quietly()
}

// differing names the pods that are others than before.
func differing(before, after harness.Pods) []string {
	var names []string
	for _, name := range before.Names() {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	return names
}

// operatorDies kills the operator twice while it restarts nodes.
func operatorDies(s *stage) {
	s.onShared()
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.underLoad(harness.EveryKind()...)
	s.must(s.kafka.RequestRoll(s.ctx))
	for _, gone := range []int{1, 2} {
		s.step(fmt.Sprintf("operator killed when node %d of 3 has gone", gone), func() error {
			if err := s.untilGone(before, gone); err != nil {
				return err
			}
			return s.kube.CrashOperator(s.ctx)
		})
	}
	s.step("finished by the next operator", func() error {
		if err := s.kafka.UntilReplaced(s.ctx, before); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 1)
}

func (s *stage) untilGone(before harness.Pods, count int) error {
	return s.kafka.UntilPods(s.ctx, fmt.Sprintf("begin to be replaced, %d of them", count), func(pods map[string]*corev1.Pod) bool {
		gone := 0
		for name, uid := range before {
			if pod, found := pods[name]; !found || pod.UID != uid || pod.DeletionTimestamp != nil {
				gone++
			}
		}
		return gone >= count
	})
}

// controllersGoFirst restarts a cluster whose controllers are nodes of their own.
func controllersGoFirst(s *stage) {
	s.kafka.Name = "separate"
	s.create(s.example("kafka-separate-controllers.yaml"))
	s.underLoad("all-crt@tls", "plain@plain")
	leader := s.activeController()
	var order []string
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.step("all nodes restarted", func() error {
		// Of all nodes at once: an annotation would reach one pod set after the other.
		if err := s.change(map[string]any{"kafka": map[string]any{"config": map[string]any{"log.cleaner.threads": 2}}}); err != nil {
			return err
		}
		err := s.kafka.UntilPods(s.ctx, "are replaced", func(pods map[string]*corev1.Pod) bool {
			for _, name := range before.Names() {
				if harness.Replaced(pods[name], before[name]) && !slices.Contains(order, name) {
					order = append(order, name)
				}
			}
			return len(order) == len(before)
		})
		if err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
	s.quietly()
	s.notes = append(s.notes, fmt.Sprintf("restarted in the order %q; the active controller was %s", order, leader))
	const controllers = 3
	for i, name := range order {
		if isController := strings.HasPrefix(name, "separate-controller-"); isController != (i < controllers) {
			s.Errorf("nodes were restarted in the order %q, controllers to be first", order)
			break
		}
	}
	if order[controllers-1] != leader {
		s.Errorf("nodes were restarted in the order %q, the active controller %s to be the last controller", order, leader)
	}
}

// activeController is the pod that leads the quorum.
func (s *stage) activeController() string {
	s.Helper()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	asked, err := s.kafka.OperatorClient(opened)
	s.must(err)
	defer asked.Close()
	quorum, err := asked.Quorum(s.ctx)
	s.must(err)
	for _, node := range opened.Network().Nodes() {
		if node.Controller && hasID(node.Name, quorum.LeaderID) {
			return node.Name
		}
	}
	s.Fatalf("no pod has the id %d of the active controller", quorum.LeaderID)
	return ""
}

func hasID(pod string, id int32) bool {
	return strings.HasSuffix(pod, fmt.Sprintf("-%d", id))
}

// meta names an object of the cluster's namespace.
func (s *stage) meta(name string) metav1.ObjectMeta { return s.kafka.Meta(name) }
