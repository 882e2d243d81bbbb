package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// isOrphaning reports whether a cluster is deleted without its objects. The garbage collector removes its finalizer when no object
// has an owner any more, which may be before the operator looks.
func (p *pass) isOrphaning(ctx context.Context) (bool, error) {
	if slices.Contains(p.etcd.Finalizers, metav1.FinalizerOrphanDependents) {
		return true, nil
	}
	return p.hasOrphans(ctx)
}

// hasOrphans reports whether there are pods or data of members without an owner, past the cache.
func (p *pass) hasOrphans(ctx context.Context) (bool, error) {
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&pods, &claims} {
		err := p.options.Live.List(ctx, list, client.InNamespace(p.etcd.Namespace), client.MatchingLabels(map[string]string{
			model.ManagedByLabel: model.Manager, model.ClusterLabel: p.etcd.Name,
		}))
		if err != nil {
			return false, fmt.Errorf("listing what is left of EtcdCluster %s: %w", p.etcd.Name, err)
		}
	}
	names := p.memberNames()
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return slices.Contains(names, pod.Name) && p.cluster.IsOrphan(&pod) }) ||
		slices.ContainsFunc(claims.Items, func(claim corev1.PersistentVolumeClaim) bool {
			isMembers := slices.ContainsFunc(names, func(name string) bool { return p.cluster.Names.Claim(name) == claim.Name })
			return isMembers && p.cluster.IsOrphan(&claim)
		}), nil
}

// isLeft reports whether an object in the operator's namespace is of an EtcdCluster of this name that was deleted without its objects.
// In a namespace that was created again, another tenant may have made what looks like these.
func (p *pass) isLeft(ctx context.Context, object metav1.Object) (bool, error) {
	labels, err := p.privateLabels(ctx)
	if err != nil || object.GetLabels()[model.NamespaceUIDLabel] != labels[model.NamespaceUIDLabel] {
		return false, err
	}
	return p.hasOrphans(ctx)
}

func (p *pass) privateLabels(ctx context.Context) (map[string]string, error) {
	if p.place == "" {
		namespace, err := readMetadata(ctx, p.options.Live, corev1.SchemeGroupVersion.WithKind("Namespace"), types.NamespacedName{Name: p.etcd.Namespace})
		if err != nil {
			return nil, err
		}
		if namespace == nil {
			return nil, fmt.Errorf("reading namespace %s: %w", p.etcd.Namespace, errNoNamespace)
		}
		p.place = namespace.UID
		if p.memory != nil {
			p.memory.place = p.place
		}
	}
	return p.cluster.PrivateLabels(p.place), nil
}

var errNoNamespace = errors.New("it is gone")

// mayAdopt reports whether a pod is a member's that is not recorded: an EtcdCluster of this name was deleted without it, or the status
// was lost and the pod was told that its member has joined. What shows that is the ledger: the operator has signed for its UID. Pods
// without certificates cannot pass for others.
func (p *pass) mayAdopt(pod *corev1.Pod) bool {
	isRecorded := slices.ContainsFunc(p.members, func(m membership.Member) bool { return m.PodUID == string(pod.UID) })
	if isRecorded || !p.cluster.IsOrphan(pod) && !p.hasLostRecord(pod) || !slices.Contains(p.memberNames(), pod.Name) {
		return false
	}
	return p.cluster.Names.Mode != model.Dynamic || p.ledger.issued.HasPod(string(pod.UID))
}

// hasLostRecord reports whether the cluster has a pod whose member has joined, and that may run: the status was lost, or is
// one of another day. A pod that the operator has just created in place of another one does not run yet.
func (p *pass) hasLostRecord(pod *corev1.Pod) bool {
	start, err := contract.ParseStart(pod.Annotations[contract.StartAnnotation])
	return err == nil && start.HasJoined && p.cluster.IsOwned(pod) && (isReady(pod) || model.IsEphemeral(pod) || !p.isNamed(pod.Name))
}

func (p *pass) isNamed(member string) bool {
	return slices.ContainsFunc(p.members, func(m membership.Member) bool { return m.Name == member })
}

// unlikePod is the field of the spec by which a pod without an owner differs from those of this cluster.
func (p *pass) unlikePod(pod *corev1.Pod) string {
	if !p.cluster.IsOrphan(pod) {
		return ""
	}
	return p.cluster.UnlikePod(pod)
}

// serving are the members, and those whose pods may be taken over.
func (p *pass) serving() []membership.Member {
	members := p.members
	for _, name := range p.memberNames() {
		if pod := p.pods[name]; pod != nil && p.mayAdopt(pod) {
			members = membership.Adopted(members, membership.Member{Name: name, PodUID: string(pod.UID)})
		}
	}
	return members
}

// adopt takes over the recorded pod of a member, with its data, and answers it.
func (p *pass) adopt(ctx context.Context, pod *corev1.Pod, member membership.Member) error {
	if !p.cluster.Ephemeral() {
		if _, err := p.claim(ctx, pod.Name); err != nil {
			return err
		}
	}
	if err := p.own(ctx, pod); err != nil {
		return err
	}
	return p.answer(ctx, pod, member)
}

// own makes the cluster the controller of an object that has none, from the state in which it was read.
func (p *pass) own(ctx context.Context, object client.Object) error {
	before, is := object.DeepCopyObject().(client.Object)
	if !is {
		return fmt.Errorf("taking over %s: %T is no object", object.GetName(), object)
	}
	object.SetOwnerReferences(append(object.GetOwnerReferences(), p.cluster.Owner()))
	err := p.options.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if err != nil {
		return fmt.Errorf("taking over %s: %w", object.GetName(), err)
	}
	p.options.Log.Info("took over an object", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "name", object.GetName())
	return nil
}

// keepLedger takes over the ledger that an EtcdCluster of this name has left.
func (p *pass) keepLedger(ctx context.Context, stored *corev1.ConfigMap) error {
	if stored.Labels[model.ClusterUIDLabel] == string(p.etcd.UID) {
		return nil
	}
	isLeft, err := p.isLeft(ctx, stored)
	switch {
	case err != nil:
		return err
	case !isLeft:
		return &foreignObjectError{"ConfigMap", p.options.Namespace + "/" + stored.Name}
	}
	before := stored.DeepCopy()
	if stored.Labels, err = p.privateLabels(ctx); err != nil {
		return err
	}
	err = p.options.Client.Patch(ctx, stored, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if err != nil {
		return fmt.Errorf("taking over ConfigMap %s: %w", stored.Name, err)
	}
	return nil
}
