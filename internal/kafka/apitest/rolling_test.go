package apitest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// In which order pods are restarted, and what holds that up.

const rollingUpdate condition.Type = "RollingUpdate"

func TestControllersAreRestartedBeforeBrokersAndTheActiveOneLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(kafkaResource(w.namespace))
	w.separatePools()
	w.settle()
	w.kafka.Lead(4)

	w.configure("log.retention.hours", "12")
	w.settle()

	want := []string{"my-ctrl-3", "my-ctrl-5", "my-ctrl-4", "my-brk-0", "my-brk-1", "my-brk-2"}
	if !slices.Equal(w.faulty.podsDeleted, want) {
		t.Errorf("restarted in the order %v, want %v", w.faulty.podsDeleted, want)
	}
}

func TestAPodThatIsStuckBlocksTheOthersAndIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.fatal = "log.retention.hours=0"

	w.configure("log.retention.hours", "0")
	w.run(20)

	if len(w.faulty.podsDeleted) != 1 {
		t.Fatalf("%v were restarted, want one", w.faulty.podsDeleted)
	}
	stuck := w.faulty.podsDeleted[0]
	w.wantReason(rollingUpdate, "Blocked", stuck, "CrashLoopBackOff")
	w.wantCondition(condition.NotReady, stuck)
}

func TestAStuckPodIsReplacedFirstWhenItsFixArrives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.fatal = "log.retention.hours=0"
	w.configure("log.retention.hours", "0")
	w.run(20)
	stuck := w.faulty.podsDeleted[0]

	w.configure("log.retention.hours", "12")
	w.settle()

	if got := w.faulty.podsDeleted[1]; got != stuck {
		t.Errorf("%s was replaced first, want the stuck pod %s", got, stuck)
	}
	if n := len(w.faulty.podsDeleted); n != 4 {
		t.Errorf("restarted: %v, want the stuck pod and then all", w.faulty.podsDeleted)
	}
	if !has(w.getKafka(), condition.Ready) {
		t.Error("the cluster is not ready")
	}
}

func TestNobodyIsRestartedWhileEvidenceIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, end func(w *world)
		says       []string
	}{
		"an agent is silent": {
			begin: func(w *world) { w.silent["my-dual-2"] = true },
			end:   func(w *world) { delete(w.silent, "my-dual-2") },
			says:  []string{"my-dual-2", "agent"},
		},
		"Kafka does not answer": {
			begin: func(w *world) { w.kafka.Fail(errors.New("nobody is there")) },
			end:   func(w *world) { w.kafka.Fail(nil) },
			says:  []string{"quorum"},
		},
		"the quorum has no leader": {
			begin: func(w *world) { w.kafka.Lead(-1) },
			end:   func(w *world) { w.kafka.Lead(1) },
			says:  []string{"quorum"},
		},
		"each node has the last copy but one of some partition": {
			begin: func(w *world) {
				for topic, inSync := range map[string][]int32{"orders": {0, 1}, "payments": {1, 2}, "users": {0, 2}} {
					w.topic(topic, 0, 1, 2)
					w.kafka.SetInSync(topic, 0, inSync...)
				}
			},
			end: func(w *world) {
				for _, topic := range []string{"orders", "payments", "users"} {
					w.kafka.SetInSync(topic, 0, 0, 1, 2)
				}
			},
			says: []string{"orders partition 0", "payments partition 0", "MinInSyncKept"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			c.begin(w)

			w.configure("log.retention.hours", "12")
			w.run(5)

			w.wantReason(rollingUpdate, "Blocked", c.says...)
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("%v were restarted", w.faulty.podsDeleted)
			}
			c.end(w)
			w.settle()
			if n := len(w.faulty.podsDeleted); n != 3 {
				t.Errorf("%d were restarted afterwards, want 3", n)
			}
		})
	}
}

func TestAManualRollingUpdateIsServedOnce(t *testing.T) {
	t.Parallel()
	request := func(yes string) map[string]any { return map[string]any{model.ManualRollingUpdateAnnotation: yes} }
	for name, c := range map[string]struct {
		ask  func(w *world)
		want []string
	}{
		"of a pod": {
			ask:  func(w *world) { w.annotate(&corev1.Pod{}, "my-dual-1", request("true")) },
			want: []string{"my-dual-1"},
		},
		"of a whole set": {
			ask:  func(w *world) { w.annotate(&podsetv1.StrimziPodSet{}, "my-dual", request("True")) },
			want: []string{"my-dual-0", "my-dual-1", "my-dual-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()

			c.ask(w)
			w.settle()
			w.startOperator()
			w.settle()

			if got := slices.Sorted(slices.Values(w.faulty.podsDeleted)); !slices.Equal(got, c.want) {
				t.Errorf("restarted: %v, want %v", got, c.want)
			}
			var set podsetv1.StrimziPodSet
			w.get("my-dual", &set)
			if set.Annotations[model.ManualRollingUpdateAnnotation] != "" {
				t.Error("the request is still on the set")
			}
		})
	}
}

func TestTheMetadataVersionFollowsWhenAllNodesRunTheNewVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.olderVersion()
	if got := w.getKafka().Status; got.KafkaVersion != "4.2.1" || got.KafkaMetadataVersion != "4.2-IV1" {
		t.Fatalf("begins with %s and %s", got.KafkaVersion, got.KafkaMetadataVersion)
	}

	w.patchKafka(map[string]any{"version": "4.3.1"})
	for len(w.faulty.podsDeleted) < 3 {
		w.run(1)
		if n := len(w.kafka.Acts()); n > 0 {
			t.Fatalf("%v happened after %v were restarted", w.kafka.Acts(), w.faulty.podsDeleted)
		}
	}
	w.settle()

	if want := []string{"update metadata.version to 4.3-IV0"}; !slices.Equal(w.kafka.Acts(), want) {
		t.Errorf("acts are %v, want %v", w.kafka.Acts(), want)
	}
	if got := w.getKafka().Status; got.KafkaVersion != "4.3.1" || got.KafkaMetadataVersion != "4.3-IV0" {
		t.Errorf("ends with %s and %s", got.KafkaVersion, got.KafkaMetadataVersion)
	}
	for pod := range w.podUIDs() {
		var object corev1.Pod
		w.get(pod, &object)
		if image := object.Spec.Containers[0].Image; image != "kafka:4.3.1" {
			t.Errorf("pod %s runs %s", pod, image)
		}
	}
}

func TestWhatSomebodyWritesOnAPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotation, value string
		// restarts is how often the pod is made again: never, when its server proves
		// that the annotation is wrong.
		restarts int
	}{
		"another certificate":               {model.ServerCertHashAnnotation, "nonsense", 0},
		"a generation of the CA before it":  {model.ClusterCACertGenerationAnnotation, "-1", 0},
		"another revision":                  {model.RevisionAnnotation, "nonsense", 1},
		"another configuration":             {model.ConfigurationHashAnnotation, "nonsense", 1},
		"a pin that nobody can read":        {"keyturn.dev/pin", "nonsense", 1},
		"a pin far ahead":                   {"keyturn.dev/pin", `{"revision":4000}`, 0},
		"that it was told of the far ahead": {"keyturn.dev/published-revision", "4000", 0},
		"something of their own":            {"example.org/note", "mine", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			var before, after corev1.Pod
			w.get("my-dual-1", &before)

			w.annotate(&corev1.Pod{}, "my-dual-1", map[string]any{c.annotation: c.value})
			w.settle()

			if n := len(w.faulty.podsDeleted); n != c.restarts || (n == 1 && w.faulty.podsDeleted[0] != "my-dual-1") {
				t.Errorf("restarted: %v, want %d", w.faulty.podsDeleted, c.restarts)
			}
			w.get("my-dual-1", &after)
			own := strings.HasPrefix(c.annotation, "strimzi.io/")
			if own && after.Annotations[c.annotation] != before.Annotations[c.annotation] {
				t.Errorf("the annotation is %q, want %q", after.Annotations[c.annotation], before.Annotations[c.annotation])
			}
			if !has(w.getKafka(), condition.Ready) {
				t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
			}
		})
	}
}

// olderVersion is a running cluster of the version before the newest.
func (w *world) olderVersion() {
	w.t.Helper()
	older := release.MetadataVersion("4.2-IV1").Level()
	w.kafka.SetMetadataVersion(older, older)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Version = "4.2.1"
	w.create(kafka, poolResource(w.namespace, "dual", 3, "controller", "broker"))
	w.settle()
}

// topic makes one partition with copies on the brokers; two have to be in sync.
func (w *world) topic(name string, brokers ...int32) {
	w.t.Helper()
	if err := w.kafka.CreateTopic(name, 1, len(brokers), 2); err != nil {
		w.t.Fatal(err)
	}
	w.kafka.Reassign(name, 0, brokers...)
}

// wantReason looks for a condition with the reason whose message has all words.
func (w *world) wantReason(kind condition.Type, reason string, words ...string) {
	w.t.Helper()
	w.wantCondition(kind, words...)
	for _, c := range w.getKafka().Status.Conditions {
		if c.Type == kind && c.Reason != reason {
			w.t.Errorf("the reason of %s is %s, want %s", kind, c.Reason, reason)
		}
	}
}

func TestARecordThatCannotBeWrittenHoldsUpNoRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.faulty.refuses = func(write kubetest.Write) error {
		if write.Target() == "ConfigMap my-trust" {
			return apierrors.NewRequestEntityTooLargeError("the object is too large")
		}
		return nil
	}

	w.configure("log.retention.hours", "12")
	w.run(60)

	if got := len(w.faulty.podsDeleted); got != 3 {
		t.Errorf("%v were restarted, want all three", w.faulty.podsDeleted)
	}
	w.wantReason(condition.Warning, "TrustNotRecorded", "too large")
}
