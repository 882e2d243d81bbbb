package podset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
)

// The operator may create pods where many who may write a StrimziPodSet may not. It
// makes those that its own controllers describe, and no others: a set must not be a way
// to run any pod by the operator's rights.

// reasonRefused is the reason of the condition that pods of a set are not made.
const reasonRefused = "PodsRefused"

// Maker is who describes the pods of the sets that pods are made for.
type Maker struct {
	// FieldOwner writes the sets.
	FieldOwner string
	// Owner is the kind of the resource that each set belongs to.
	Owner schema.GroupVersionKind
	// ServiceAccount is the one that pods of an owner run as.
	ServiceAccount func(owner string) string
}

// refuses says why no pod is made for a set, and returns nothing when some may be. The
// set is the newest one, with its managed fields.
func (r *Reconciler) refuses(ctx context.Context, set *podsetv1.StrimziPodSet, pods []corev1.Pod) (why []string, err error) {
	owner, owned := ownerOf(set, r.maker.Owner)
	if !owned {
		return []string{fmt.Sprintf("the set belongs to no %s", r.maker.Owner.Kind)}, nil
	}
	lives, err := r.lives(ctx, set.Namespace, owner)
	if err != nil || !lives {
		return []string{fmt.Sprintf("the %s %s that the set belongs to is gone", owner.Kind, owner.Name)}, err
	}
	for i := range pods {
		for _, wrong := range oversteps(&pods[i], r.maker.ServiceAccount(owner.Name)) {
			why = append(why, fmt.Sprintf("pod %s %s", pods[i].Name, wrong))
		}
	}
	return why, nil
}

// writtenBy reports whether the owner of fields has applied the set. Another operator has
// sets of its own, in which this one has no say.
func writtenBy(set *podsetv1.StrimziPodSet, owner string) bool {
	return slices.ContainsFunc(set.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == owner && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == ""
	})
}

func ownerOf(set *podsetv1.StrimziPodSet, kind schema.GroupVersionKind) (metav1.OwnerReference, bool) {
	i := slices.IndexFunc(set.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() == kind.GroupKind()
	})
	if i < 0 {
		return metav1.OwnerReference{}, false
	}
	return set.OwnerReferences[i], true
}

// lives reports whether the very owner exists.
func (r *Reconciler) lives(ctx context.Context, namespace string, owner metav1.OwnerReference) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(r.maker.Owner)
	name := types.NamespacedName{Namespace: namespace, Name: owner.Name}
	err := r.live.Get(ctx, name, object)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading %s %s: %w", owner.Kind, name, err)
	}
	return err == nil && object.UID == owner.UID, nil
}

// oversteps lists what a pod asks for that no pod of the operator's needs: what lies
// outside of it on its machine, and rights of others.
func oversteps(pod *corev1.Pod, account string) []string {
	var wrong []string
	note := func(is bool, what string) {
		if is {
			wrong = append(wrong, what)
		}
	}
	spec := &pod.Spec
	note(spec.HostNetwork || spec.HostPID || spec.HostIPC, "asks for a namespace of its machine")
	note(spec.ServiceAccountName != account, fmt.Sprintf("runs as service account %q in place of %q", spec.ServiceAccountName, account))
	note(slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }), "mounts a path of its machine")
	note(slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), isPrivileged), "has a privileged container")
	note(len(spec.EphemeralContainers) > 0, "has ephemeral containers")
	return wrong
}

func isPrivileged(c corev1.Container) bool {
	context := c.SecurityContext
	if context == nil {
		return false
	}
	return context.Privileged != nil && *context.Privileged || context.Capabilities != nil && len(context.Capabilities.Add) > 0
}
