package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdac "github.com/keyturn/keyturn/api/etcd/v1beta2/applyconfiguration/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// keepFinalizer puts the finalizer on the cluster before the first CA is made.
func (p *pass) keepFinalizer(ctx context.Context) error {
	if slices.Contains(p.etcd.Finalizers, finalizer) {
		return nil
	}
	kept, err := p.memory.objects.Apply(ctx, etcdac.EtcdCluster(p.etcd.Name, p.etcd.Namespace).WithUID(p.etcd.UID).WithFinalizers(finalizer), nil)
	if err == nil {
		p.etcd.ResourceVersion = kept.ResourceVersion // of what the status is applied to
	}
	return err
}

// remove deletes the pods of a cluster that is being deleted and, after the last one, what others could be members
// with: its CAs and the operator's certificate; then its ledger and its record. Everything else goes with its owner. Of a cluster that is deleted
// without its objects, nothing is deleted.
func (p *pass) remove(ctx context.Context) error {
	if !slices.Contains(p.etcd.Finalizers, finalizer) {
		return nil
	}
	switch isOrphaning, err := p.isOrphaning(ctx); {
	case err != nil:
		return err
	case isOrphaning:
		p.event(corev1.EventTypeNormal, "MembersKept", "Kept pods, claims, CAs and the ledger. Create an EtcdCluster of this name to take them over")
		return p.release(ctx)
	}
	left, err := p.removePods(ctx)
	if err != nil || left > 0 {
		return err
	}
	if err := p.removePrivate(ctx); err != nil {
		return err
	}
	if err := errors.Join(p.removeLedger(ctx), p.removeRecord(ctx)); err != nil {
		return err
	}
	return p.release(ctx)
}

// removePrivate deletes the Secrets of the cluster in the operator's namespace.
func (p *pass) removePrivate(ctx context.Context) error {
	names := p.cluster.Names
	private := make([]string, 0, 1+3*len(contract.Planes()))
	private = append(private, names.OperatorSecret())
	for _, plane := range contract.Planes() {
		private = append(private, names.TrustedCertsSecret(plane), names.CACertSecret(plane), names.CAKeySecret(plane))
	}
	for _, name := range private {
		secret, err := p.ownSecret(ctx, name)
		if err != nil {
			return err
		}
		if secret == nil || secret.Labels[model.ClusterUIDLabel] != string(p.etcd.UID) {
			continue
		}
		if err := kube.Delete(ctx, p.options.Client, secret); err != nil {
			return err
		}
	}
	return nil
}

// release removes the finalizer and no other. An apply would remove finalizers that no field manager owns, such as that by which the
// garbage collector leaves objects without an owner.
func (p *pass) release(ctx context.Context) error {
	before := p.etcd.DeepCopy()
	p.etcd.Finalizers = slices.DeleteFunc(p.etcd.Finalizers, func(name string) bool { return name == finalizer })
	err := p.options.Client.Patch(ctx, p.etcd, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of EtcdCluster %s: %w", p.etcd.Name, err)
	}
	return nil
}

func (p *pass) removeLedger(ctx context.Context) error {
	stored, err := p.configMap(ctx, p.cluster.Names.Ledger())
	if err != nil || stored == nil || stored.Labels[model.ClusterUIDLabel] != string(p.etcd.UID) {
		return err
	}
	return kube.Delete(ctx, p.options.Client, stored)
}

// removePods deletes the pods of the cluster, read past the cache, and returns how many there are still.
func (p *pass) removePods(ctx context.Context) (int, error) {
	var pods corev1.PodList
	err := p.options.Live.List(ctx, &pods, client.InNamespace(p.etcd.Namespace), client.MatchingLabels(map[string]string{
		model.ManagedByLabel: model.Manager, model.ClusterLabel: p.etcd.Name,
	}))
	if err != nil {
		return 0, fmt.Errorf("listing the pods of EtcdCluster %s: %w", p.etcd.Name, err)
	}
	left := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !p.cluster.IsOwned(pod) {
			continue
		}
		left++
		if pod.DeletionTimestamp.IsZero() {
			if err := kube.Delete(ctx, p.options.Client, pod); err != nil {
				return left, err
			}
		}
	}
	return left, nil
}
