package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// Reasons for volumes that are not as the spec says.
const (
	ExpansionRefused Reason = "ExpansionRefused"
	VolumesFixed     Reason = "VolumesFixed"
	VolumesExpanding Reason = "VolumesExpanding"
)

// mountPatience is how long a kubelet may take to grow a file system under the pod that uses it. Most can.
const mountPatience = 3 * time.Minute

// Volume is how the claim of a member differs from the spec.
type Volume struct {
	Claim string
	// Size is what the spec asks for, and Expands is true while the claim asks for less.
	Size    resource.Quantity
	Expands bool
	// IsBound is false of a claim without a volume, which nothing can expand.
	IsBound bool
	// IsGrowing is true when the claim asks for as much as the spec, and the volume does not have it yet.
	IsGrowing bool
	// Fixed are fields of the spec that a claim which exists cannot be given.
	Fixed []string
	// Refusal is what the API server has answered to the expansion.
	Refusal string
}

// Volume compares the claim of a member with the spec. A spec that names no size asks for none.
func (c Cluster) Volume(claim *corev1.PersistentVolumeClaim) Volume {
	volume := Volume{Claim: claim.Name, IsBound: claim.Status.Phase == corev1.ClaimBound}
	given := c.pod.PersistentVolumeClaimSpec
	if given == nil {
		given = &corev1.PersistentVolumeClaimSpec{}
	}
	requested, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	size, isGiven := given.Resources.Requests[corev1.ResourceStorage]
	if !isGiven {
		size = requested
	}
	volume.Size, volume.Expands = size, requested.Cmp(size) < 0
	volume.IsGrowing = volume.IsBound && !volume.Expands && !capacity.IsZero() && capacity.Cmp(requested) < 0
	volume.Fixed = fixed(*given, claim.Spec)
	if requested.Cmp(size) > 0 {
		volume.Fixed = append(volume.Fixed, "resources.requests.storage")
	}
	return volume
}

// fixed are the fields that are given otherwise than a claim has them, and that Kubernetes does not let
// clients change.
func fixed(given, has corev1.PersistentVolumeClaimSpec) []string {
	var fields []string
	for _, field := range []struct {
		path    string
		isGiven bool
		isEqual bool
	}{
		{"accessModes", len(given.AccessModes) > 0, equality.Semantic.DeepEqual(given.AccessModes, has.AccessModes)},
		{"dataSource", given.DataSource != nil, equality.Semantic.DeepEqual(given.DataSource, has.DataSource)},
		{"dataSourceRef", given.DataSourceRef != nil, equality.Semantic.DeepEqual(given.DataSourceRef, has.DataSourceRef)},
		{"resources.limits", len(given.Resources.Limits) > 0, equality.Semantic.DeepEqual(given.Resources.Limits, has.Resources.Limits)},
		{"selector", given.Selector != nil, equality.Semantic.DeepEqual(given.Selector, has.Selector)},
		{"storageClassName", given.StorageClassName != nil, equality.Semantic.DeepEqual(given.StorageClassName, has.StorageClassName)},
		{"volumeAttributesClassName", given.VolumeAttributesClassName != nil, equality.Semantic.DeepEqual(given.VolumeAttributesClassName, has.VolumeAttributesClassName)},
		{"volumeMode", given.VolumeMode != nil, equality.Semantic.DeepEqual(given.VolumeMode, has.VolumeMode)},
		{"volumeName", given.VolumeName != "", given.VolumeName == has.VolumeName},
	} {
		if field.isGiven && !field.isEqual {
			fields = append(fields, field.path)
		}
	}
	return fields
}

// AwaitsMount reports whether the file system of a claim grows only under another pod than this one, and when that can
// be said if it cannot be said yet. A pod that was created since has mounted it.
func AwaitsMount(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, now time.Time) (awaits bool, at time.Time) {
	for _, condition := range claim.Status.Conditions {
		since := condition.LastTransitionTime
		if condition.Type != corev1.PersistentVolumeClaimFileSystemResizePending || condition.Status != corev1.ConditionTrue || since.Before(&pod.CreationTimestamp) {
			continue
		}
		due := since.Add(mountPatience)
		return !now.Before(due), due
	}
	return false, time.Time{}
}

// differences are how volumes can differ from the spec, the most urgent first. Texts name the claims, the size that is
// asked for, what the API server has answered, and fields.
func (c Cluster) differences() []difference {
	const spec = "spec.pod.persistentVolumeClaimSpec"
	return []difference{
		{ExpansionRefused, func(v Volume) bool { return v.Refusal != "" }, "The API server does not expand PersistentVolumeClaims %[1]s to %[2]s: %[3]s. The volumes keep their size, and the operator tries again. " +
			"Set allowVolumeExpansion of their StorageClass to true, or set " + spec + ".resources.requests.storage back."},
		{VolumesFixed, func(v Volume) bool { return len(v.Fixed) > 0 }, "PersistentVolumeClaims %[1]s differ from " + spec + " in %[4]s. Kubernetes makes no claim smaller and does not change its other fields, and the claims are kept. " +
			"Set the fields back, or create another EtcdCluster with them."},
		{Paused, func(v Volume) bool { return v.Expands && c.Paused }, "PersistentVolumeClaims %[1]s are not expanded to %[2]s while the cluster is paused. Set spec.paused to false."},
		{VolumesExpanding, func(v Volume) bool { return v.Expands && !c.Paused && !v.IsBound }, "PersistentVolumeClaims %[1]s have no volume yet, and are expanded to %[2]s when they have one. See their events if that lasts."},
		{VolumesExpanding, func(v Volume) bool { return v.Expands && !c.Paused && v.IsBound && v.Refusal == "" || v.IsGrowing }, "PersistentVolumeClaims %[1]s are being expanded to %[2]s. See their events if that lasts."},
	}
}

type difference struct {
	reason Reason
	is     func(Volume) bool
	text   string
}

// volumesDiffer says how volumes are not as the spec says; nothing when they are.
func (c Cluster) volumesDiffer(volumes []Volume) []metav1.Condition {
	var reason Reason
	var messages []string
	for _, each := range c.differences() {
		var size, refusal string
		var claims, fields []string
		for _, volume := range volumes {
			if each.is(volume) {
				claims, fields = append(claims, volume.Claim), append(fields, volume.Fixed...)
				size, refusal = volume.Size.String(), volume.Refusal
			}
		}
		if len(claims) == 0 {
			continue
		}
		slices.Sort(fields)
		reason = cmp.Or(reason, each.reason)
		messages = append(messages, fmt.Sprintf(each.text, strings.Join(claims, ", "), size, refusal, strings.Join(slices.Compact(fields), ", ")))
	}
	if reason == "" {
		return nil
	}
	return []metav1.Condition{newCondition(etcdv1beta2.ConditionVolumesDiffer, metav1.ConditionTrue, reason, strings.Join(messages, " "))}
}
