package apitest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// roll reconciles and plays until the cluster is ready again, and returns the pods that were replaced, in their order.
func (w *world) roll() []string {
	w.t.Helper()
	before, order := w.uids(), []string{}
	for range 80 {
		w.reconcile()
		gone := 0
		for name, uid := range before {
			now, exists := w.uids()[name]
			if !exists {
				gone++
			}
			if exists && now != uid && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		if gone > 1 {
			w.t.Fatalf("%d pods are gone", gone)
		}
		w.play()
		if w.condition(etcdv1beta2.ConditionReady).Status == metav1.ConditionTrue && w.status().ObservedGeneration == w.cluster().Generation {
			return order
		}
	}
	w.t.Fatalf("the cluster does not become ready: %+v", w.status())
	return nil
}

func TestAChangedSpecIsRolledOneMemberAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	ids := w.ids()
	w.change(`{"spec": {"pod": {"etcdEnv": [{"name": "ETCD_QUOTA_BACKEND_BYTES", "value": "4294967296"}], "labels": {"example.com/team": "db"},
		"resources": {"limits": {"memory": "1Gi"}}, "tolerations": [{"key": "etcd", "operator": "Exists"}]}}}`)
	order := w.roll()
	if len(order) != 3 || order[2] != first || w.etcd.Moves() != 1 || !maps.Equal(w.ids(), ids) {
		t.Errorf("pods were replaced in the order %v, the leader was moved %d times, members are %v, want the leader %s last", order, w.etcd.Moves(), w.ids(), first)
	}
	for _, pod := range w.pods() {
		container := pod.Spec.Containers[0]
		if container.Resources.Limits.Memory().String() != "1Gi" || pod.Labels["example.com/team"] != "db" ||
			!slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "ETCD_QUOTA_BACKEND_BYTES" }) {
			t.Errorf("pod %s is not as the spec says", pod.Name)
		}
	}
	w.atRest()
}

func TestAChangedSpecAndAVersionGoInOneRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ofVersion(3, "3.5.35"))
	w.bring()
	w.change(`{"spec": {"version": "3.6.16", "pod": {"annotations": {"example.com/a": "b"}}}}`)
	w.roll()
	after := w.uids()
	w.bringSafely()
	if !maps.Equal(after, w.uids()) || len(with(w.versions(), "3.6.16")) != 3 || w.pod(third).Annotations["example.com/a"] != "b" {
		t.Errorf("the pods have versions %v", w.versions())
	}
	w.atRest()
}

func TestAPausedClusterKeepsItsPodsWhateverTheSpecSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.uids()
	w.change(`{"spec": {"paused": true, "pod": {"nodeSelector": {"disk": "fast"}}}}`)
	w.until("Paused")
	w.atRest()
	if !maps.Equal(before, w.uids()) {
		t.Error("a paused cluster has other pods")
	}
	w.change(`{"spec": {"paused": false}}`)
	if order := w.roll(); len(order) != 3 {
		t.Errorf("pods %v were replaced", order)
	}
}

// An operator that knows nothing of revisions has created the pods.
func TestPodsOfAnEarlierOperatorStayUntilTheSpecChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	for _, pod := range w.pods() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+model.RevisionAnnotation+`": null}}}`))
		if err := w.person.Patch(t.Context(), &pod, patch); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	before := w.uids()
	w.bringSafely()
	w.atRest()
	if !maps.Equal(before, w.uids()) {
		t.Fatal("an operator that is upgraded replaces pods")
	}
	w.change(`{"spec": {"pod": {"labels": {"example.com/team": "db"}}}}`)
	if order := w.roll(); len(order) != 3 {
		t.Errorf("pods %v were replaced", order)
	}
}

func TestAnEphemeralMemberAloneKeepsItsPod(t *testing.T) {
	t.Parallel()
	spec := of(1)
	spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
	w := newWorld(t, spec)
	w.bring()
	before := w.uids()
	w.change(`{"spec": {"pod": {"labels": {"example.com/team": "db"}}}}`)
	if message := w.until("Restarting"); !strings.Contains(message, "Nothing is done. Set spec.size to 3 first.") {
		t.Errorf("the message is %q", message)
	}
	for range 5 {
		w.reconcile()
		w.play()
	}
	if !maps.Equal(before, w.uids()) {
		t.Error("the only member has lost its data")
	}
}

// onVolumes is a running cluster with volumes of 8Gi, of a class that lets them grow or does not.
func onVolumes(t *testing.T, grows bool) *world {
	t.Helper()
	spec := of(3)
	w := newWorld(t, spec)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Provisioner: "example.com/disks", AllowVolumeExpansion: &grows}
	w.create(class)
	t.Cleanup(func() { _ = w.person.Delete(t.Context(), class) })
	w.change(`{"spec": {"pod": {"persistentVolumeClaimSpec": {"storageClassName": "` + class.Name + `", "resources": {"requests": {"storage": "8Gi"}}}}}}`)
	w.bring()
	for _, claim := range w.claims() {
		w.report(claim, func(status *corev1.PersistentVolumeClaimStatus) {
			status.Phase = corev1.ClaimBound
			status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}
		})
	}
	w.bring()
	return w
}

// report is what Kubernetes says of a claim.
func (w *world) report(claim corev1.PersistentVolumeClaim, change func(status *corev1.PersistentVolumeClaimStatus)) {
	w.t.Helper()
	change(&claim.Status)
	if err := w.person.Status().Update(w.t.Context(), &claim); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) grow(size string) {
	w.t.Helper()
	w.change(`{"spec": {"pod": {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": "` + size + `"}}}}}}`)
}

// requested is what claims ask for.
func (w *world) requested() []string {
	w.t.Helper()
	var sizes []string
	for _, claim := range w.claims() {
		sizes = append(sizes, claim.Spec.Resources.Requests.Storage().String())
	}
	return sizes
}

func TestVolumesAreExpandedWithoutARestart(t *testing.T) {
	t.Parallel()
	w := onVolumes(t, true)
	before := w.uids()
	w.grow("20Gi")
	w.reconcile()
	if got := w.requested(); !slices.Equal(got, []string{"20Gi", "20Gi", "20Gi"}) {
		t.Fatalf("claims ask for %v", got)
	}
	if differ := w.condition(etcdv1beta2.ConditionVolumesDiffer); differ.Reason != string(model.VolumesExpanding) || !w.told(string(model.VolumesExpanding)) {
		t.Errorf("the condition is %+v", differ)
	}
	w.atRest()
	for _, claim := range w.claims() {
		w.report(claim, func(status *corev1.PersistentVolumeClaimStatus) { status.Capacity = claim.Spec.Resources.Requests })
	}
	w.reconcile()
	if differ := w.condition(etcdv1beta2.ConditionVolumesDiffer); differ.Reason != "" {
		t.Errorf("the condition is %+v", differ)
	}
	w.atRest()
	if !maps.Equal(before, w.uids()) {
		t.Error("pods were replaced")
	}
}

func TestVolumesThatCannotGrowAreReportedAndStopNothing(t *testing.T) {
	t.Parallel()
	w := onVolumes(t, false)
	w.grow("20Gi")
	w.bring()
	differ := w.condition(etcdv1beta2.ConditionVolumesDiffer)
	if differ.Reason != string(model.ExpansionRefused) || !strings.Contains(differ.Message, "allowVolumeExpansion") || !w.told(string(model.ExpansionRefused)) {
		t.Errorf("the condition is %+v", differ)
	}
	w.atRest() // it is not tried again in each reconcile
	w.delete(w.pod(second))
	w.bring()

	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := w.person.Patch(t.Context(), class, client.RawPatch(types.MergePatchType, []byte(`{"allowVolumeExpansion": true}`))); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	w.reconcile()
	if got := w.requested(); !slices.Equal(got, []string{"20Gi", "20Gi", "20Gi"}) {
		t.Errorf("claims ask for %v", got)
	}
}

func TestWhatNoClaimCanBeGivenIsReported(t *testing.T) {
	t.Parallel()
	w := onVolumes(t, true)
	w.change(`{"spec": {"pod": {"persistentVolumeClaimSpec": {"storageClassName": "fast", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "4Gi"}}}}}}`)
	w.bring()
	differ := w.condition(etcdv1beta2.ConditionVolumesDiffer)
	if differ.Reason != string(model.VolumesFixed) || !strings.Contains(differ.Message, "accessModes, resources.requests.storage, storageClassName") {
		t.Errorf("the condition is %+v", differ)
	}
	w.atRest()
}

func TestAFileSystemThatGrowsWhenItIsMountedRestartsItsMember(t *testing.T) {
	t.Parallel()
	w := onVolumes(t, true)
	w.grow("20Gi")
	w.bring()
	for _, claim := range w.claims() {
		w.report(claim, func(status *corev1.PersistentVolumeClaimStatus) {
			status.Conditions = []corev1.PersistentVolumeClaimCondition{{
				Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			}}
		})
	}
	w.clock.SetTime(time.Now())
	before := w.uids()
	w.bring()
	if !maps.Equal(before, w.uids()) {
		t.Fatal("the kubelet was not waited for")
	}
	w.clock.SetTime(time.Now().Add(4 * time.Minute))
	w.reconcile()
	w.until("Restarting")
	if uids := w.uids(); len(uids) < 2 || maps.Equal(before, uids) {
		t.Errorf("the pods are %v", uids)
	}
}
