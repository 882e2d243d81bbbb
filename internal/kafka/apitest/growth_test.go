package apitest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Volumes grow while everything else goes on.

// onClaims is a running cluster of three nodes on volumes of 1Gi, whose class lets
// them grow or does not.
func onClaims(t *testing.T, grows bool) *world {
	t.Helper()
	w := newWorld(t)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Provisioner: "example.com/disks", AllowVolumeExpansion: &grows,
	}
	w.create(class)
	t.Cleanup(func() { _ = w.api.Delete(w.t.Context(), class) })
	pool := poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker)
	pool.Spec.Storage = claims(true)
	pool.Spec.Storage.Class = class.Name
	w.create(kafkaResource(w.namespace), pool)
	w.settle()
	for pod := range w.podUIDs() {
		w.reportClaim(pod, func(status *corev1.PersistentVolumeClaimStatus) {
			status.Phase = corev1.ClaimBound
			status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		})
	}
	w.settle()
	return w
}

// reportClaim is what Kubernetes says of the claim of a pod.
func (w *world) reportClaim(pod string, change func(*corev1.PersistentVolumeClaimStatus)) {
	w.t.Helper()
	var claim corev1.PersistentVolumeClaim
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "data-" + pod}, &claim); err != nil {
		w.t.Fatal(err)
	}
	change(&claim.Status)
	if err := w.api.Status().Update(w.t.Context(), &claim); err != nil {
		w.t.Fatal(err)
	}
	w.did("reported", &claim)
}

// awaitsMount says that the file system of a claim waits for being mounted again.
func (w *world) awaitsMount(status *corev1.PersistentVolumeClaimStatus) {
	status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(w.clock.Now()),
	}}
}

// mountClaims lets file systems grow that waited for it.
func (w *world) mountClaims(ctx context.Context, pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		var claim corev1.PersistentVolumeClaim
		key := client.ObjectKey{Namespace: w.namespace, Name: source.ClaimName}
		if err := w.api.Get(ctx, key, &claim); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		if len(claim.Status.Conditions) == 0 {
			continue
		}
		claim.Status.Conditions = nil
		if err := w.api.Status().Update(ctx, &claim); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) grow(size string) {
	w.t.Helper()
	w.patch(&kafkav1.KafkaNodePool{}, "dual", map[string]any{"spec": map[string]any{"storage": map[string]any{"size": size}}})
}

func (w *world) wantRequested(size string) {
	w.t.Helper()
	for pod := range w.podUIDs() {
		var claim corev1.PersistentVolumeClaim
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "data-" + pod}, &claim); err != nil {
			w.t.Fatal(err)
		}
		if got := claim.Spec.Resources.Requests.Storage().String(); got != size {
			w.t.Errorf("claim %s requests %s, want %s", claim.Name, got, size)
		}
	}
}

func TestVolumesGrowDuringARotationWithoutARestart(t *testing.T) {
	t.Parallel()
	w := onClaims(t, true)
	w.pin()
	w.replace(authorities.Cluster)
	w.once(w.admitted(authorities.Cluster), func() { w.grow("2Gi") })
	w.settle()

	w.wantRequested("2Gi")
	w.wantRestarts(0)
	w.wantRemainder(firstV, nextV)
}

func TestAFileSystemThatGrowsWhenItIsMountedRestartsItsNodeOnce(t *testing.T) {
	t.Parallel()
	w := onClaims(t, true)
	w.pin()
	w.replace(authorities.Cluster)
	w.once(w.admitted(authorities.Cluster), func() {
		for pod := range w.podUIDs() {
			w.reportClaim(pod, w.awaitsMount)
		}
	})
	w.run(30)
	w.wantRestarts(0) // a kubelet may still do it

	w.settle()
	w.wantRestarts(1)
	w.wantAlone(nextV)
}

func TestVolumesThatCannotGrowHoldUpNothing(t *testing.T) {
	t.Parallel()
	w := onClaims(t, false)
	w.pin()
	w.grow("2Gi")
	w.run(3)
	w.replace(authorities.Cluster)
	w.settle()

	w.wantRequested("1Gi")
	w.wantRemainder(firstV, nextV)
	for pod := range w.podUIDs() {
		w.wantReason(condition.Warning, "KafkaStorage", "data-"+pod, "allow volume expansion")
	}
}
