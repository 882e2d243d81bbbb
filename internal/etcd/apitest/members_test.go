package apitest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

const second, third = "my-cluster-1", "my-cluster-2"

// bringSafely brings the cluster to its spec, and holds that etcd has a quorum after every step.
func (w *world) bringSafely() {
	w.t.Helper()
	for range 120 {
		w.reconcile()
		w.play()
		if !w.etcd.HasQuorum() {
			w.t.Fatalf("etcd has no quorum: %+v", w.status())
		}
		if ready := w.condition(etcdv1beta2.ConditionReady); ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == w.cluster().Generation {
			w.reconcile()
			return
		}
	}
	w.t.Fatalf("the cluster does not become ready: %+v", w.status())
}

// ids are the ids of the members in the status, by name.
func (w *world) ids() map[string]string {
	w.t.Helper()
	ids := map[string]string{}
	for _, member := range w.status().MemberStatuses {
		ids[member.Name] = member.MemberID
	}
	return ids
}

func (w *world) claimNames() []string {
	w.t.Helper()
	var names []string
	for _, claim := range w.claims() {
		if claim.DeletionTimestamp == nil {
			names = append(names, claim.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) deleteClaim(member string) {
	w.t.Helper()
	w.delete(&corev1.PersistentVolumeClaim{ObjectMeta: w.meta("data-" + member)})
}

func (w *world) resize(size int) {
	w.t.Helper()
	w.change(fmt.Sprintf(`{"spec": {"size": %d}}`, size))
	w.bringSafely()
	var want []string
	for ordinal := range size {
		want = append(want, "data-"+model.Names{Cluster: cluster}.Member(ordinal))
	}
	if got := w.claimNames(); !slices.Equal(got, want) || len(w.pods()) != size || len(w.ids()) != size {
		w.t.Errorf("of size %d: claims %v, %d pods, members %v", size, got, len(w.pods()), w.ids())
	}
	budget := &policyv1.PodDisruptionBudget{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, budget); err != nil {
		w.t.Fatal(err)
	}
	if size > 2 && budget.Spec.MinAvailable.IntValue() != size/2+1 {
		w.t.Errorf("of size %d: the budget is %s", size, budget.Spec.MinAvailable)
	}
}

func TestTheSizeFollowsTheSpec(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	for _, size := range []int{3, 5, 3} {
		w.resize(size)
	}
	before := w.ids()
	w.atRest()
	w.resize(5)
	for _, name := range []string{first, second, third} {
		if w.ids()[name] != before[name] {
			t.Errorf("member %s is another one", name)
		}
	}
}

func TestTheLeaderIsMovedBeforeItsMemberIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	last, _ := w.etcd.Member(names.PeerURL(third))
	if _, err := w.etcd.Members(t.Context()); err != nil { // elects the first one
		t.Fatal(err)
	}
	if err := w.etcd.MoveLeader(t.Context(), names.ClientURL(first), last.ID); err != nil {
		t.Fatal(err)
	}
	w.resize(1)
	if moves := w.etcd.Moves(); moves != 2 {
		t.Errorf("the leader was moved %d times, want by the test and by the operator", moves)
	}
}

func TestAMemberThatHasLostPodAndDataIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.ids()
	w.delete(w.pod(second))
	w.deleteClaim(second)
	w.play()
	w.bringSafely()
	after := w.ids()
	if after[first] != before[first] || after[third] != before[third] || after[second] == before[second] {
		t.Errorf("members were %v and are %v", before, after)
	}
	w.atRest()
}

func TestAClaimThatIsDeletedByHandIsReplacedWhenItsPodGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.ids()
	w.deleteClaim(second)
	w.play()
	w.atRest()
	if after := w.ids(); after[second] != before[second] {
		t.Errorf("member %s is replaced although its pod has the data", second)
	}
	w.delete(w.pod(second))
	w.play()
	w.bringSafely()
	if after := w.ids(); after[second] == before[second] || len(w.claimNames()) != 3 {
		t.Errorf("members are %v with claims %v", after, w.claimNames())
	}
}

func TestAllPodsDeletedAtOnceComeBackWithTheirData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before, claims := w.ids(), w.claims()
	pods := w.pods()
	for i := range pods {
		w.delete(&pods[i])
	}
	w.play()
	w.bring()
	for name, id := range w.ids() {
		if before[name] != id {
			t.Errorf("member %s was %s and is %s", name, before[name], id)
		}
	}
	for i, claim := range w.claims() {
		if claim.UID != claims[i].UID {
			t.Errorf("claim %s is another one", claim.Name)
		}
	}
	w.atRest()
}

func TestALostQuorumDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	for _, name := range []string{second, third} {
		w.delete(w.pod(name))
		w.deleteClaim(name)
	}
	w.play()
	message := w.until("QuorumLost")
	if !strings.Contains(message, second+", "+third) || !strings.Contains(message, "nothing is deleted") {
		t.Errorf("the message is %q", message)
	}
	if available := w.condition(etcdv1beta2.ConditionAvailable); available.Reason != "NoQuorum" {
		t.Errorf("Available is %+v", available)
	}
	if pods := w.pods(); len(pods) != 1 || pods[0].Name != first || !slices.Equal(w.claimNames(), []string{"data-" + first}) {
		t.Errorf("%d pods and claims %v are left, want those of the member with data", len(pods), w.claimNames())
	}
	w.writer.Sent = 0
	w.reconcile()
	if w.writer.Sent > 0 {
		t.Errorf("the operator writes %s", w.writer.Last)
	}
}

func TestAPodThatIsEvictedIsCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.ids()
	evicted := w.pod(second)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "Failed", "reason": "Evicted", "conditions": null}}`))
	if err := w.person.Status().Patch(t.Context(), evicted.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	w.play()
	w.bringSafely()
	if w.pod(second).UID == evicted.UID || w.ids()[second] != before[second] {
		t.Errorf("the pod is the same, or the member %s is not", w.ids()[second])
	}
}

func TestALearnerThatNeverStartedIsRemovedWhenTheSizeIsSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.create(&corev1.Secret{ObjectMeta: w.meta(second)}) // another controller's
	w.change(`{"spec": {"size": 3}}`)
	w.until("ForeignObject")
	w.change(`{"spec": {"size": 1}}`)
	w.bringSafely()
	members, err := w.etcd.Members(t.Context())
	if err != nil || len(members) != 1 {
		t.Errorf("etcd has the members %+v: %v", members, err)
	}
	w.atRest()
}

func TestTheBudgetCountsTheVotersThereAre(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 2; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(3))
			w.bring()
			w.change(fmt.Sprintf(`{"spec": {"size": %d, "paused": true}}`, size))
			w.reconcile()
			budget := &policyv1.PodDisruptionBudget{}
			if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, budget); err != nil {
				t.Fatal(err)
			}
			if got := budget.Spec.MinAvailable.IntValue(); got != 2 {
				t.Errorf("three voters need two of them, and the budget keeps %d", got)
			}
		})
	}
}

func TestTheAPIServerRefusesASizeOutOfRange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	for _, size := range []int32{0, 8} {
		other := &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(fmt.Sprint("size-", size)), Spec: of(size)}
		if err := w.person.Create(t.Context(), other); err == nil {
			t.Errorf("a cluster of size %d is accepted", size)
		}
	}
}

func TestAnEvenSizeIsWarnedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(2))
	w.bring()
	if ready := w.condition(etcdv1beta2.ConditionReady); !strings.Contains(ready.Message, "Set spec.size to an odd number") {
		t.Errorf("the message is %q", ready.Message)
	}
}

// changeWrites is more than any of the changes takes.
const changeWrites = 48

func TestWhereTheOperatorCrashesInAChangeOfMembersTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 4)
	for name, change := range map[string]func(w *world){
		"three members to one": func(w *world) { w.change(`{"spec": {"size": 1}}`) },
		"another version":      func(w *world) { w.change(`{"spec": {"version": "3.6.16"}}`) },
		"a member replaced": func(w *world) {
			w.delete(w.pod(second))
			w.deleteClaim(second)
			w.play()
		},
	} {
		for _, crashAt := range crashes(1, 6, changeWrites) {
			t.Run(fmt.Sprint(name, crashAt), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				w := newWorld(t, ofVersion(3, "3.5.35"))
				w.bring()
				change(w)
				w.restart()
				w.writer.CrashAt = crashAt
				for range 60 {
					if _, err := w.try(); err != nil {
						if crashAt == changeWrites {
							t.Errorf("%d writes are not more than it takes", changeWrites)
						}
						break
					}
					w.play()
					if !w.etcd.HasQuorum() {
						t.Fatal("etcd has no quorum")
					}
				}
				w.restart()
				w.bringSafely()
				status := w.status()
				if len(status.Members.Ready) != int(w.cluster().Spec.Size) || status.TargetVersion != "" || len(w.claimNames()) != len(status.Members.Ready) {
					t.Errorf("claims %v, status %+v", w.claimNames(), status)
				}
				w.atRest()
			})
		}
	}
}
