package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestSpecOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ca   *kafkav1.CertificateAuthority
		want authority.Spec
	}{
		"nothing is said": {want: authority.Spec{Source: authority.Generated}},
		"everything is said": {
			ca: &kafkav1.CertificateAuthority{
				ValidityDays: new(int32(20)), RenewalDays: new(int32(5)), CertificateExpirationPolicy: "replace-key",
				KeyAlgorithm: kafkav1.ECDSA, KeySize: new(int32(384)), GenerateCertificateAuthority: new(true),
			},
			want: authority.Spec{
				Source: authority.Generated, ValidFor: 20 * authority.Day, RenewBefore: 5 * authority.Day, Policy: authority.ReplaceKey,
				KeyAlgorithm: pki.ECDSA, KeySize: 384,
			},
		},
		"it is the user's": {
			ca:   &kafkav1.CertificateAuthority{GenerateCertificateAuthority: new(false)},
			want: authority.Spec{Source: authority.UserProvided},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, model.CASpec(c.ca)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenWindow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		windows []string
		want    authority.Window
		warned  bool
	}{
		"none is always open": {want: authority.Window{Open: true}},
		"inside of one":       {windows: []string{"* * 12 * * ?"}, want: authority.Window{Open: true, Next: noon().AddDate(0, 0, 1)}},
		"outside of it":       {windows: []string{"* * 14 * * ?"}, want: authority.Window{Next: noon().Add(2 * time.Hour)}},
		"inside of the second": {
			windows: []string{"* * 14 * * ?", "* * 12 * * ?"}, want: authority.Window{Open: true, Next: noon().Add(2 * time.Hour)},
		},
		"one that cannot be read": {windows: []string{"* * 12 * * ?", "often"}, warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clusterOf(&kafkav1.Kafka{Spec: kafkav1.KafkaSpec{MaintenanceTimeWindows: c.windows}}, nil)
			got := p.openWindow()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("window (-want +got):\n%s", diff)
			}
			if warned := len(p.notes) == 1 && strings.Contains(p.notes[0].Message, "often"); warned != c.warned {
				t.Errorf("notes are %v, want a warning: %t", p.notes, c.warned)
			}
		})
	}
}

func TestARestartThatHasTimeUsesTheLastWindowBeforeItIsDue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		windows []string
		now     time.Time
		due     time.Duration
		want    bool
	}{
		"as the last one opens":      {[]string{"* * 12 ? * *"}, noon(), 20 * time.Hour, true},
		"in the middle of it":        {[]string{"* * 12 ? * *"}, noon().Add(30 * time.Minute), 20 * time.Hour, true},
		"in the one before":          {[]string{"* * 12 ? * *"}, noon(), 30 * time.Hour, false},
		"between windows":            {[]string{"* * 14 ? * *"}, noon(), 30 * time.Minute, false},
		"without windows":            {nil, noon(), 20 * time.Hour, false},
		"in one that cannot be read": {[]string{"often"}, noon(), 20 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clusterOf(&kafkav1.Kafka{Spec: kafkav1.KafkaSpec{MaintenanceTimeWindows: c.windows}}, nil)
			p.now = c.now
			p.window = p.openWindow()
			if got := p.isDue(trust.Load{How: trust.ByRestart, MayBeDeferred: true, Due: noon().Add(c.due)}); got != c.want {
				t.Errorf("due: %t, want %t", got, c.want)
			}
		})
	}
}

func TestARestartThatIsNeverDueIsDoneInNoWindow(t *testing.T) {
	t.Parallel()
	c := clusterOf(&kafkav1.Kafka{Spec: kafkav1.KafkaSpec{MaintenanceTimeWindows: []string{"* * 12 ? * *"}}}, nil)
	c.now = noon()
	c.window = c.openWindow()
	if !c.window.Open || c.isDue(trust.Load{How: trust.ByRestart, MayBeDeferred: true}) {
		t.Errorf("it is done while a window is open (%t)", c.window.Open)
	}
}

func podSet(pods ...string) *podsetv1.StrimziPodSet {
	set := &podsetv1.StrimziPodSet{ObjectMeta: metav1.ObjectMeta{
		Name: "my-pool", UID: "set of my-pool",
		Annotations: map[string]string{model.StorageAnnotation: `{"type":"ephemeral"}`},
	}}
	for _, pod := range pods {
		set.Spec.Pods = append(set.Spec.Pods, runtime.RawExtension{Raw: []byte(pod)})
	}
	return set
}

const describedBroker = `{"metadata":{"name":"my-pool-%d","labels":{"strimzi.io/broker-role":"true","strimzi.io/controller-role":"false"}}}`

// runningPod is a pod of a pod set, which somebody has taken out of all Services.
func runningPod(name, set string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
		{Kind: podSetKind, Name: set, UID: types.UID("set of " + set), Controller: new(true)},
	}}}
}

func TestAPoolHasTheNodesThatAreDescribedAndThoseThatStillRun(t *testing.T) {
	t.Parallel()
	o := &observation{pods: map[string]*corev1.Pod{
		"my-pool-7": runningPod("my-pool-7", "my-pool"), "my-pool-3": runningPod("my-pool-3", "my-pool"),
		"my-other-9": runningPod("my-other-9", "my-other"), "my-pool-x": runningPod("my-pool-x", "my-pool"),
	}}
	set := podSet(fmt.Sprintf(describedBroker, 4), "{", fmt.Sprintf(describedBroker, 3))

	got := o.nodesOf(set)

	want := model.KnownPool{
		NodeIDs: []model.NodeID{3, 4, 7}, Roles: got.Roles, Storage: &kafkav1.Storage{Type: kafkav1.StorageEphemeral},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
}

func TestTheRolesOfAPoolAreThoseOfItsDescribedPods(t *testing.T) {
	t.Parallel()
	got := (&observation{}).nodesOf(podSet(fmt.Sprintf(describedBroker, 4)))
	if want := (model.Roles{Broker: true}); got.Roles != want {
		t.Errorf("roles are %+v, want %+v", got.Roles, want)
	}
}

func TestARecordedNodeNeedsNoDescription(t *testing.T) {
	t.Parallel()
	set := podSet()
	set.Annotations[model.NodesAnnotation] = `{"ids":[5,6],"roles":["controller"]}`

	got := (&observation{}).nodesOf(set)

	if !slices.Equal(got.NodeIDs, []model.NodeID{5, 6}) || got.Roles != (model.Roles{Controller: true}) {
		t.Errorf("pool is %+v, want the two controllers of the record", got)
	}
}

func TestAPoolWithoutItsPodSetIsKnownByItsStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster string
		want    []model.NodeID
	}{
		"of this cluster":           {cluster: "this", want: []model.NodeID{3, 4}},
		"of one that was before it": {cluster: "another"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &observation{kafka: kafkav1.Kafka{Status: kafkav1.KafkaStatus{ClusterId: "this"}}}
			extra := &pool{}
			extra.Name = "extra"
			extra.Status = kafkav1.KafkaNodePoolStatus{
				ClusterId: c.cluster, NodeIds: []int32{4, 3}, Roles: []kafkav1.ProcessRole{kafkav1.RoleBroker},
			}
			o.pools = []*pool{extra}
			if got := o.known().Pools["extra"].NodeIDs; !slices.Equal(got, c.want) {
				t.Errorf("nodes are %v, want %v", got, c.want)
			}
		})
	}
}

func TestStorageThatNobodyCanReadIsNotRecorded(t *testing.T) {
	t.Parallel()
	set := podSet()
	set.Annotations[model.StorageAnnotation] = "?"
	if got := (&observation{}).nodesOf(set); got.Storage != nil {
		t.Errorf("storage is %+v, want none", got.Storage)
	}
}

func TestNodesThatLeaveAreThereUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	pods := map[string]*corev1.Pod{"my-pool-5": runningPod("my-pool-5", "my-pool")}
	pods["my-pool-5"].Labels = map[string]string{model.ControllerRoleLabel: "true"}
	c := clusterOf(&kafkav1.Kafka{}, pods)
	c.cluster.Leaving = []model.Leaving{
		{ID: 5, Pool: "pool", Pod: "my-pool-5", What: model.LeavingNode, Broker: true},
		{ID: 1, Pool: "pool", Pod: "b", What: model.LeavingBrokerRole, Broker: true},
	}

	got := c.allNodes()

	want := []model.Node{
		{ID: 0, Pod: "a"},
		{ID: 1, Pod: "b"},
		{ID: 5, Pool: "pool", Pod: "my-pool-5", Roles: model.Roles{Broker: true, Controller: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestOnlyAWholeNodeIsRemoved(t *testing.T) {
	t.Parallel()
	leaving := []model.Leaving{{ID: 5, What: model.LeavingNode}, {ID: 6, What: model.LeavingBrokerRole}}
	for name, c := range map[string]struct {
		node model.NodeID
		skip bool
		want rollout.Removal
	}{
		"a node that stays":                {node: 4, want: rollout.Keep},
		"a node that leaves":               {node: 5, want: rollout.RemoveWhenEmpty},
		"a node that leaves, empty or not": {node: 5, skip: true, want: rollout.RemoveAnyway},
		"a node that only loses a role":    {node: 6, skip: true, want: rollout.Keep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &desired{cluster: model.Cluster{Leaving: leaving, SkipScaleDownCheck: c.skip}}
			if got := p.removalOf(model.Node{ID: c.node}); got != c.want {
				t.Errorf("removal is %v, want %v", got, c.want)
			}
		})
	}
}

func TestAQuorumIsLookedUpOnlyWhileAPoolOfControllersIsNotBuilt(t *testing.T) {
	t.Parallel()
	resource := func(roles ...kafkav1.ProcessRole) *pool {
		return &pool{KafkaNodePool: kafkav1.KafkaNodePool{
			ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Spec: kafkav1.KafkaNodePoolSpec{Roles: roles},
		}}
	}
	kafka := kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: "my"}}
	built := map[string]podsetv1.StrimziPodSet{"my-pool": {}}
	for name, c := range map[string]struct {
		sets  map[string]podsetv1.StrimziPodSet
		roles []kafkav1.ProcessRole
		want  bool
	}{
		"controllers without a pod set": {roles: []kafkav1.ProcessRole{kafkav1.RoleController}, want: true},
		"both roles without a pod set":  {roles: []kafkav1.ProcessRole{kafkav1.RoleBroker, kafkav1.RoleController}, want: true},
		"brokers without a pod set":     {roles: []kafkav1.ProcessRole{kafkav1.RoleBroker}},
		"controllers that are built":    {sets: built, roles: []kafkav1.ProcessRole{kafkav1.RoleController}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &observation{kafka: kafka, podSets: c.sets}
			if got := p.lacksControllers(resource(c.roles...)); got != c.want {
				t.Errorf("lacks controllers: %t, want %t", got, c.want)
			}
		})
	}
}

func TestPinnedRevision(t *testing.T) {
	t.Parallel()
	pod := func(pin string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{agent.PinAnnotation: pin}}}
	}
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		want     int64
		readable bool
	}{
		"no pod":                     {readable: true},
		"a pod without a pin":        {pod: &corev1.Pod{}, readable: true},
		"a pinned pod":               {pod: pod(`{"revision":7}`), want: 7, readable: true},
		"a pin that nobody can read": {pod: pod("7!")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, readable := pinnedRevision(c.pod)
			if got != c.want || readable != c.readable {
				t.Errorf("revision %d, readable %t; want %d, %t", got, readable, c.want, c.readable)
			}
		})
	}
}

func TestOnlyWhatAPersonMustMendIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"no error":                          {},
		"an API server that is away":        {err: errors.New("away"), again: true},
		"an invalid resource":               {err: fmt.Errorf("resolving: %w", &model.InvalidResourceError{})},
		"an invalid Secret":                 {err: fmt.Errorf("deciding: %w", &authority.InvalidResourceError{})},
		"a namespace that is being deleted": {err: fmt.Errorf("applying: %w", ending())},
		"an invalid Secret and more":        {err: errors.Join(errors.New("away"), &authority.InvalidResourceError{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := transient(c.err); (got != nil) != c.again {
				t.Errorf("tried again because of %v, want %t", got, c.again)
			}
		})
	}
}

// ending is how an API server refuses to create something in a namespace that is
// being deleted.
func ending() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "my-dual-0", errors.New("being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	return err
}

func TestARecordSaysWhatTheActIsFor(t *testing.T) {
	t.Parallel()
	act := &rollout.Act{Kind: rollout.Restart, Node: 2, UID: "pod", Reasons: []rollout.Reason{{Code: rollout.ConfigChanged, Note: "differs"}}}

	got := recordOf(act, noon().Add(time.Millisecond))

	want := disruptionRecord{
		Disruption: &disruption{Node: 2, UID: "pod", Since: noon()}, Kind: rollout.Restart,
		Reasons: []string{"ConfigChangeRequiresRestart: differs"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(disruptionRecord{})); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if planned := got.planned(); *planned != (rollout.Disruption{Node: 2, UID: "pod", Since: noon()}) {
		t.Errorf("planned is %+v", planned)
	}
}

func TestARecordOfNothingPlansNothing(t *testing.T) {
	t.Parallel()
	if got := (disruptionRecord{}).planned(); got != nil {
		t.Errorf("planned is %+v, want nothing", got)
	}
}
