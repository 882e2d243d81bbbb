package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

func TestAConditionKeepsTheTimeAtWhichItBegan(t *testing.T) {
	t.Parallel()
	const long, now = "2026-01-01T00:00:00Z", "2027-03-01T12:00:00Z"
	before := []condition.Condition{
		{Type: condition.Warning, Status: condition.True, Reason: "Storage", Message: "before", LastTransitionTime: long},
		{Type: condition.NotReady, Status: condition.False, Reason: "Creating", LastTransitionTime: long},
	}
	for name, c := range map[string]struct {
		wanted wanted
		since  string
	}{
		"the same with another message":   {holds(condition.Warning, "Storage", "after"), long},
		"another reason":                  {holds(condition.Warning, "Rack", "before"), now},
		"another type":                    {holds(condition.NotReady, "Storage", "before"), now},
		"one that was there but not True": {holds(condition.NotReady, "Creating", ""), now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []condition.Condition{{
				Type: c.wanted.kind, Status: condition.True, Reason: c.wanted.reason, Message: c.wanted.message, LastTransitionTime: c.since,
			}}
			if diff := cmp.Diff(want, conditionsSince([]wanted{c.wanted}, before, noon())[:1]); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheConditionOfARollingUpdateSaysWhatIsGoingOn(t *testing.T) {
	t.Parallel()
	blocker := func(message string) rollout.Blocker {
		return rollout.Blocker{Gate: rollout.GateQuorum, Message: message}
	}
	for name, c := range map[string]struct {
		acted           outcome
		reason, message string
	}{
		"a pod is being restarted, whatever blocks the others": {
			acted:  outcome{pending: []string{"a", "b"}, disrupted: "a", blockers: []rollout.Blocker{blocker("b waits")}},
			reason: reasonProgressing, message: "restarting a; still to be restarted or removed: a, b",
		},
		"nobody stands in the way": {
			acted:  outcome{pending: []string{"a"}},
			reason: reasonProgressing, message: "still to be restarted or removed: a",
		},
		"somebody does": {
			acted:   outcome{pending: []string{"a", "b"}, blockers: []rollout.Blocker{blocker("no leader"), blocker("no leader"), blocker("slow voter")}},
			reason:  reasonBlocked,
			message: "still to be restarted or removed: a, b; waiting: no leader (QuorumKept); slow voter (QuorumKept)",
		},
		"many do, and the rest is counted": {
			acted: outcome{pending: []string{"a"}, blockers: []rollout.Blocker{
				blocker("1"), blocker("2"), blocker("3"), blocker("4"), blocker("5"), blocker("5"),
			}},
			reason:  reasonBlocked,
			message: "still to be restarted or removed: a; waiting: 1 (QuorumKept); 2 (QuorumKept); 3 (QuorumKept); and 2 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := holds(conditionRollingUpdate, c.reason, c.message)
			if got := rollingUpdate(c.acted); got != want {
				t.Errorf("condition is\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func TestTheNextLookIsWhenTheFirstThingFallsDue(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) time.Time { return noon().Add(d) }
	for name, c := range map[string]struct {
		due   []time.Time
		again time.Duration
		want  time.Duration
	}{
		"nothing falls due":                            {},
		"the earliest of several":                      {due: []time.Time{in(3 * time.Hour), in(time.Hour), in(2 * time.Hour)}, want: time.Hour},
		"a rollout looks again sooner":                 {due: []time.Time{in(time.Hour)}, again: time.Second, want: time.Second},
		"something falls due before the rollout looks": {due: []time.Time{in(time.Minute)}, again: time.Hour, want: time.Minute},
		"what has passed is not waited for":            {due: []time.Time{in(-time.Hour), in(0)}},
		"what is about to fall due does not spin":      {due: []time.Time{in(time.Nanosecond)}, want: time.Second},
		"a time that is not known is no time":          {due: []time.Time{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(&observation{now: noon()}, &memory{})
			for _, due := range c.due {
				p.wake(due)
			}
			if got := p.nextReconcile(outcome{again: c.again}); got != c.want {
				t.Errorf("next look in %s, want %s", got, c.want)
			}
		})
	}
}

// clusterOf is a cluster of two nodes with the pods as they are given.
func clusterOf(kafka *kafkav1.Kafka, pods map[string]*corev1.Pod) *applied {
	c := begin(&observation{now: noon(), kafka: *kafka, pods: pods}, &memory{})
	c.cluster.Nodes = []model.Node{{ID: 0, Pod: "a"}, {ID: 1, Pod: "b"}}
	return c
}

func readyPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{podCondition(corev1.PodReady, corev1.ConditionTrue, "")}},
	}
}

func TestTheClusterIsReadyWhileOnePodIsRestartedOnPurpose(t *testing.T) {
	t.Parallel()
	running := kafkav1.Kafka{Status: kafkav1.KafkaStatus{KafkaMetadataVersion: "4.3-IV0"}}
	for name, c := range map[string]struct {
		kafka  kafkav1.Kafka
		pods   []string
		acted  outcome
		kind   condition.Type
		reason string
	}{
		"all pods are ready":          {kafka: running, pods: []string{"a", "b"}, kind: condition.Ready},
		"one is restarted on purpose": {kafka: running, pods: []string{"a"}, acted: outcome{disrupted: "b"}, kind: condition.Ready},
		"another one is away, too":    {kafka: running, acted: outcome{disrupted: "b"}, kind: condition.NotReady, reason: reasonPodsNotReady},
		"one went by itself":          {kafka: running, pods: []string{"a"}, kind: condition.NotReady, reason: reasonPodsNotReady},
		"it was never ready yet":      {pods: []string{"a"}, kind: condition.NotReady, reason: reasonCreating},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := map[string]*corev1.Pod{}
			for _, pod := range c.pods {
				pods[pod] = readyPod(pod)
			}
			got := clusterOf(&c.kafka, pods).progress(c.acted)
			if len(got) != 1 || got[0].kind != c.kind || got[0].reason != c.reason {
				t.Errorf("conditions are %+v, want %s %s", got, c.kind, c.reason)
			}
		})
	}
}

func TestWhatKeepsAPodFromBecomingReadyIsNamed(t *testing.T) {
	t.Parallel()
	stuck := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waitingIn("CrashLoopBackOff")}}}

	got := clusterOf(&kafkav1.Kafka{}, map[string]*corev1.Pod{"a": stuck}).progress(outcome{})

	if want := "waiting for pods a (CrashLoopBackOff), b to become ready"; len(got) != 1 || got[0].message != want {
		t.Errorf("conditions are %+v, want one that says %q", got, want)
	}
}

func TestAPodThatWaitsForItsImageIsNamedWithItsPullSecret(t *testing.T) {
	t.Parallel()
	stuck := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kafka"},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry-credentials"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waitingIn("ImagePullBackOff")}},
	}

	got := clusterOf(&kafkav1.Kafka{}, map[string]*corev1.Pod{"a": stuck}).progress(outcome{})

	const want = "a (ImagePullBackOff), b to become ready; pod a: its image cannot be pulled with pull Secret registry-credentials: " +
		"check that the image exists, and that namespace kafka has the Secret with credentials for the registry"
	if len(got) != 1 || !strings.HasSuffix(got[0].message, want) {
		t.Errorf("conditions are %+v, want one that ends with %q", got, want)
	}
}

func TestWhatIsDisruptedIsTheRecordedPodUntilThatIsOver(t *testing.T) {
	t.Parallel()
	nodes := []rollout.Node{
		{ID: 0, PodName: "a"}, {ID: 1, PodName: "b"}, {ID: 2, PodName: "c", Pod: rollout.Pod{State: rollout.Stuck}},
	}
	recorded := &rollout.Disruption{Node: 1, Since: noon().Add(-rollout.StartGrace)}
	for name, c := range map[string]struct {
		record  *rollout.Disruption
		decided rollout.Decision
		want    string
	}{
		"nothing is recorded":               {},
		"an act begins":                     {decided: rollout.Decision{Act: &rollout.Act{PodName: "a"}}, want: "a"},
		"a recorded one goes on":            {record: recorded, want: "b"},
		"a recorded one is over":            {record: recorded, decided: rollout.Decision{Settled: true}},
		"one is over and the next begins":   {record: recorded, decided: rollout.Decision{Settled: true, Act: &rollout.Act{PodName: "a"}}, want: "a"},
		"a recorded one whose node is gone": {record: &rollout.Disruption{Node: 7, Since: noon()}},
		"a recorded one that is stuck":      {record: &rollout.Disruption{Node: 2, Since: noon()}},
		"a recorded one that never ends":    {record: &rollout.Disruption{Node: 1, Since: noon().Add(-rollout.StartGrace - time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := disrupted(rollout.Snapshot{Now: noon(), Nodes: nodes, Disruption: c.record}, c.decided); got != c.want {
				t.Errorf("disrupted is %q, want %q", got, c.want)
			}
		})
	}
}

func TestANodeIsPendingUntilItIsAsItShallBeAndReady(t *testing.T) {
	t.Parallel()
	ready := rollout.Pod{State: rollout.Ready}
	got := pendingNodes(rollout.Snapshot{Nodes: []rollout.Node{
		{PodName: "as it shall be", Pod: ready},
		{PodName: "to be restarted", Pod: ready, Reasons: []rollout.Reason{{Code: rollout.ConfigChanged}}},
		{PodName: "to be removed", Pod: ready, Removal: rollout.RemoveWhenEmpty},
		{PodName: "not ready", Pod: rollout.Pod{State: rollout.Unready}},
	}})
	if diff := cmp.Diff([]string{"to be restarted", "to be removed", "not ready"}, got); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestALongNoteIsCutInTheMiddleAndBetweenCharacters(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxNote)
	for name, c := range map[string]struct{ note, want string }{
		"a short one stays":      {"short", "short"},
		"one of the full length": {long, long},
		"a long one":             {"wrong" + long + "mend", "wrong" + long[:494] + "…" + long[:494] + "mend"},
		"a character on the cut": {strings.Repeat("é", maxNote), strings.Repeat("é", 249) + "…" + strings.Repeat("é", 249)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := shortened(c.note); got != c.want {
				t.Errorf("%d bytes, want %d", len(got), len(c.want))
			}
		})
	}
}
