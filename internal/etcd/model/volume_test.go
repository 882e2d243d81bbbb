package model_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// bound is the claim of a member with a volume that is as large as was asked for.
func bound(size string) *corev1.PersistentVolumeClaim {
	list := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-my-cluster-0"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("slow"),
			Resources: corev1.VolumeResourceRequirements{Requests: list},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: list},
	}
}

func TestAClaimIsComparedWithTheSpec(t *testing.T) {
	t.Parallel()
	growing := bound("20Gi")
	growing.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}
	unbound := bound("8Gi")
	unbound.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	refused := func(volume *model.Volume) { volume.Refusal = "only dynamically provisioned pvc can be resized" }
	with := func(change func(spec *corev1.PersistentVolumeClaimSpec)) *etcdv1beta2.PodPolicy {
		pod := storage("8Gi")
		change(pod.PersistentVolumeClaimSpec)
		return pod
	}
	for name, test := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		pod    *etcdv1beta2.PodPolicy
		paused bool
		then   func(volume *model.Volume)

		expands bool
		reason  model.Reason
		says    string
	}{
		"as it shall be":        {claim: bound("8Gi"), pod: storage("8192Mi")},
		"nothing is asked for":  {claim: bound("20Gi"), pod: nil},
		"no size is asked for":  {claim: bound("20Gi"), pod: with(func(spec *corev1.PersistentVolumeClaimSpec) { spec.Resources.Requests = nil })},
		"larger":                {claim: bound("8Gi"), pod: storage("20Gi"), expands: true, reason: model.VolumesExpanding, says: "data-my-cluster-0 are being expanded to 20Gi"},
		"on its way":            {claim: growing, pod: storage("20Gi"), reason: model.VolumesExpanding, says: "data-my-cluster-0 are being expanded to 20Gi"},
		"grown beyond what was": {claim: bound("20Gi"), pod: storage("20Gi")},
		"without a volume":      {claim: unbound, pod: storage("20Gi"), expands: true, reason: model.VolumesExpanding, says: "data-my-cluster-0 have no volume yet, and are expanded to 20Gi"},
		"paused":                {claim: bound("8Gi"), pod: storage("20Gi"), paused: true, expands: true, reason: model.Paused, says: "Set spec.paused to false."},
		"refused":               {claim: bound("8Gi"), pod: storage("20Gi"), then: refused, expands: true, reason: model.ExpansionRefused, says: "to 20Gi: only dynamically provisioned pvc can be resized. The volumes keep"},
		"smaller":               {claim: bound("20Gi"), pod: storage("8Gi"), reason: model.VolumesFixed, says: "in resources.requests.storage. Kubernetes makes no claim smaller"},
		"of another class":      {claim: bound("8Gi"), pod: with(func(spec *corev1.PersistentVolumeClaimSpec) { spec.StorageClassName = new("fast") }), reason: model.VolumesFixed, says: "in storageClassName."},
		"of the same class":     {claim: bound("8Gi"), pod: with(func(spec *corev1.PersistentVolumeClaimSpec) { spec.StorageClassName = new("slow") })},
		"for others": {claim: bound("8Gi"), pod: with(func(spec *corev1.PersistentVolumeClaimSpec) {
			spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}), reason: model.VolumesFixed, says: "in accessModes."},
		"of a named volume": {claim: bound("8Gi"), pod: with(func(spec *corev1.PersistentVolumeClaimSpec) { spec.VolumeName = "disk-7" }), reason: model.VolumesFixed, says: "in volumeName."},
		"larger and of another kind": {
			claim: bound("8Gi"), expands: true, reason: model.VolumesFixed, says: "are being expanded to 20Gi",
			pod: func() *etcdv1beta2.PodPolicy {
				pod := storage("20Gi")
				pod.PersistentVolumeClaimSpec.StorageClassName = new("fast")
				return pod
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			etcd.Spec.Pod, etcd.Spec.Paused = test.pod, test.paused
			cluster, _ := model.Resolve(etcd, settings())
			volume := cluster.Volume(test.claim)
			if volume.Expands != test.expands {
				t.Errorf("it is expanded: %t, want %t", volume.Expands, test.expands)
			}
			if test.then != nil {
				test.then(&volume)
			}
			status := cluster.Status(model.Seen{Members: voters(true, true, true), Volumes: []model.Volume{volume}, Now: noon()})
			got := apimeta.FindStatusCondition(status.Conditions, etcdv1beta2.ConditionVolumesDiffer)
			if got == nil {
				got = &metav1.Condition{}
			}
			if got.Reason != string(test.reason) || !strings.Contains(got.Message, test.says) {
				t.Errorf("the condition is %+v, want %s: %s", got, test.reason, test.says)
			}
			if strings.Contains(got.Message, "%!") {
				t.Errorf("the message is %q", got.Message)
			}
		})
	}
}

func TestAFileSystemAwaitsAnotherPod(t *testing.T) {
	t.Parallel()
	pending := func(status corev1.ConditionStatus) *corev1.PersistentVolumeClaim {
		claim := bound("20Gi")
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon())},
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: status, LastTransitionTime: metav1.NewTime(noon())},
		}
		return claim
	}
	for name, test := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		created time.Duration
		after   time.Duration
		awaits  bool
	}{
		"not pending":                   {claim: pending(corev1.ConditionFalse), created: -time.Hour, after: time.Hour},
		"no condition":                  {claim: bound("20Gi"), created: -time.Hour, after: time.Hour},
		"the kubelet may still grow it": {claim: pending(corev1.ConditionTrue), created: -time.Hour, after: 3*time.Minute - 1},
		"it did not":                    {claim: pending(corev1.ConditionTrue), created: -time.Hour, after: 3 * time.Minute, awaits: true},
		"the pod has been replaced":     {claim: pending(corev1.ConditionTrue), created: time.Minute, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon().Add(test.created))}}
			if awaits, _ := model.AwaitsMount(test.claim, pod, noon().Add(test.after)); awaits != test.awaits {
				t.Errorf("it awaits another pod: %t, want %t", awaits, test.awaits)
			}
		})
	}
}

func TestAPausedClusterSaysThatPodsAreOld(t *testing.T) {
	t.Parallel()
	etcd := three(t)
	etcd.Spec.Paused = true
	cluster, _ := model.Resolve(etcd, settings())
	status := cluster.Status(model.Seen{Members: voters(true, true, true), HasOldPods: true, Now: noon()})
	if ready := status.Conditions[0]; ready.Reason != "Paused" || ready.Status != metav1.ConditionFalse {
		t.Errorf("Ready is %+v", ready)
	}
}
