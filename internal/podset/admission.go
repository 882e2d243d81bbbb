package podset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kube"
)

// The operator may create pods where many who may write a StrimziPodSet may not. It
// makes those that its own controllers describe, and no others: a set must not be a way
// to run any pod by the operator's rights.
//
// A set names its writer only by a name that any client may use, and the maker keeps some descriptions
// unchanged. So no pod is created as a set describes it. The maker renders it again, and takes from the
// description only what distinguishes its own pods.

// reasonRefused is the reason of the condition that pods of a set are not made.
const reasonRefused = "PodsRefused"

// Maker describes the pods of the sets that pods are made for.
type Maker struct {
	// FieldOwner applies the sets.
	FieldOwner client.FieldOwner
	// Owner is the kind of the resource that each set belongs to.
	Owner schema.GroupVersionKind
	// ServiceAccount is the one that pods of an owner run as, and belongs to it.
	ServiceAccount func(owner string) string
	// Render makes the pods that are described in a set of an owner's, reading past the
	// cache, and says why others of them are not made and what can be done about it.
	Render func(ctx context.Context, live client.Reader, set *podsetv1.StrimziPodSet, owner string, described []corev1.Pod) (pods []corev1.Pod, why []string, err error)
}

// admit returns the pods to make for what a set describes, and why others are not made. The
// set is the newest one, with its managed fields.
func (r *Reconciler) admit(ctx context.Context, set *podsetv1.StrimziPodSet, described []corev1.Pod) (pods []corev1.Pod, why []string, err error) {
	if reason := r.refusesSet(set); reason != "" {
		return nil, []string{reason}, nil
	}
	owner, _ := ownerOf(set, r.maker.Owner)
	for _, refuses := range []func(context.Context, *podsetv1.StrimziPodSet, metav1.OwnerReference) (string, error){
		r.refusesOwner, r.refusesAccount,
	} {
		reason, err := refuses(ctx, set, owner)
		if err != nil {
			return nil, nil, err
		}
		if reason != "" {
			return nil, []string{reason}, nil
		}
	}
	var refused Refusals
	for i := range described {
		for _, wrong := range oversteps(&described[i], r.maker.ServiceAccount(owner.Name)) {
			refused.Add(described[i].Name, wrong, rewritten(owner))
		}
	}
	if why := refused.Sentences(); len(why) > 0 {
		return nil, why, nil
	}
	return r.maker.Render(ctx, r.live, set, owner.Name, described)
}

// rewritten says what can be done about a set that another client has written.
func rewritten(owner metav1.OwnerReference) string {
	return "the operator rewrites the set by itself; if this lasts, " + heldUp(owner)
}

// heldUp says where to look when the operator does not put right what it usually does.
func heldUp(owner metav1.OwnerReference) string {
	return fmt.Sprintf("check whether %s %s is paused or NotReady", owner.Kind, owner.Name)
}

// refusesSet says what is wrong with whose a set is or who has written it, as far as the set
// itself tells.
func (r *Reconciler) refusesSet(set *podsetv1.StrimziPodSet) string {
	owner, owned := ownerOf(set, r.maker.Owner)
	if !owned {
		return fmt.Sprintf("the set belongs to no %s: restore its owner reference, or delete it if its pods are not needed", r.maker.Owner.Kind)
	}
	return r.refusesWriter(set, owner)
}

// refusesOwner says that the very owner of a set does not exist, if so.
func (r *Reconciler) refusesOwner(ctx context.Context, set *podsetv1.StrimziPodSet, owner metav1.OwnerReference) (string, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(r.maker.Owner)
	exists, err := r.look(ctx, set.Namespace, owner.Name, object)
	if err != nil || exists && object.UID == owner.UID {
		return "", err
	}
	return fmt.Sprintf("the %s %s that the set belongs to is gone: Kubernetes deletes the set and its pods; if they stay, delete the set yourself",
		owner.Kind, owner.Name), nil
}

// refusesWriter says who has written the pods of a set since the maker did. A list of
// pods is written as a whole, so that it is the maker's as long as the field is.
func (r *Reconciler) refusesWriter(set *podsetv1.StrimziPodSet, owner metav1.OwnerReference) string {
	others := ""
	for _, entry := range set.ManagedFields {
		switch {
		case !ownsPods(entry):
		case kube.Applies(entry, r.maker.FieldOwner):
			return ""
		default:
			others = fmt.Sprintf(", but by %q", entry.Manager)
		}
	}
	return "its pods were not written by " + string(r.maker.FieldOwner) + others + ": " + rewritten(owner)
}

// refusesAccount says that the service account of the pods does not exist or is not their owner's. Pods
// would otherwise get the rights of an unrelated service account.
func (r *Reconciler) refusesAccount(ctx context.Context, set *podsetv1.StrimziPodSet, owner metav1.OwnerReference) (string, error) {
	name := r.maker.ServiceAccount(owner.Name)
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	exists, err := r.look(ctx, set.Namespace, name, account)
	belongs := slices.ContainsFunc(account.OwnerReferences, func(of metav1.OwnerReference) bool { return of.UID == owner.UID })
	switch {
	case err != nil, exists && belongs:
		return "", err
	case exists:
		return fmt.Sprintf("ServiceAccount %s does not belong to %s %s: delete it, and the operator creates its own", name, owner.Kind, owner.Name), nil
	default:
		return fmt.Sprintf("ServiceAccount %s does not exist: the operator creates it; if this lasts, %s", name, heldUp(owner)), nil
	}
}

// look reads an object as it is now, and whether there is one.
func (r *Reconciler) look(ctx context.Context, namespace, name string, into *metav1.PartialObjectMetadata) (bool, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	err := r.live.Get(ctx, key, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading %s %s: %w", into.Kind, key, err)
	}
	return err == nil, nil
}

// ownsPods reports whether the pods of a set are as the entry's manager has written them.
func ownsPods(entry metav1.ManagedFieldsEntry) bool {
	var fields struct {
		Spec struct {
			Pods *struct{} `json:"f:pods"`
		} `json:"f:spec"`
	}
	return entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec.Pods != nil
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

// oversteps lists what a pod asks for that no pod of the operator's needs: what lies
// outside of it on its machine, and rights of others. No pod would be given it; a set that
// asks for it says so.
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
