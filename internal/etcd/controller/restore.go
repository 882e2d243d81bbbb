package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// unrestorableError is a cluster that cannot begin with the file of its spec.
type unrestorableError struct{ found *model.Problem }

func (e *unrestorableError) Error() string { return e.found.Message }

func (e *unrestorableError) problem() *model.Problem { return e.found }

// restoreFile is the file that the first member of a new cluster begins with; nil when it begins without data. Nothing is
// created before the file is known.
func (p *pass) restoreFile(ctx context.Context, act membership.CreatePod) (*model.RestoreFile, error) {
	if !act.IsFirst || p.cluster.Restore == nil {
		return nil, nil //nolint:nilnil // most members begin so
	}
	backup, err := p.restoreBackup(ctx)
	if err != nil {
		return nil, err
	}
	file, problem := p.cluster.RestoreFile(backup)
	if problem != nil {
		return nil, &unrestorableError{problem}
	}
	claim, err := readMetadata(ctx, p.options.Live, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), p.inNamespace(file.Claim))
	if err != nil {
		return nil, err
	}
	if claim == nil {
		return nil, &unrestorableError{p.cluster.WithoutRestoreClaim(file)}
	}
	return &file, nil
}

// restoreBackup reads the EtcdBackup of spec.restore past the cache; nil when there is none.
func (p *pass) restoreBackup(ctx context.Context) (*etcdv1beta2.EtcdBackup, error) {
	name := p.cluster.RestoreBackup()
	if name == "" {
		return nil, nil //nolint:nilnil // the spec names another file
	}
	backup, key := &etcdv1beta2.EtcdBackup{}, p.inNamespace(name)
	err := p.options.Live.Get(ctx, key, backup)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading EtcdBackup %s: %w", key, err)
	default:
		return backup, nil
	}
}

// observeRestore reads what the pod of a first member that has not joined reports of its restore.
func (p *pass) observeRestore() {
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID {
			continue
		}
		restored, problem := p.cluster.RestoreSeen(pod, p.now)
		if restored != nil {
			p.restored = restored
		}
		if problem != nil && member.ID == "" && (p.problem == nil || membership.Reason(p.problem.Reason).IsKnown()) {
			p.problem = problem
		}
	}
}

// skipsRestore reports whether members have other data than those of spec.restore: there were some before them.
func (p *pass) skipsRestore() bool {
	if p.cluster.Restore == nil || p.etcd.Status.Restored != nil || len(p.members) == 0 {
		return false
	}
	return !slices.ContainsFunc(p.members, func(m membership.Member) bool { return p.pods[m.Name] != nil && model.IsRestoring(p.pods[m.Name]) })
}

// tellSkipped writes an event when the first member of a cluster is one that has data.
func (p *pass) tellSkipped(member string) {
	isRestored := p.pods[member] != nil && model.IsRestoring(p.pods[member])
	if p.cluster.Restore == nil || p.etcd.Status.Restored != nil || isRestored || len(p.members) > 0 {
		return
	}
	p.event(corev1.EventTypeWarning, "RestoreSkipped", "spec.restore is not carried out, because member %s has data that an EtcdCluster of this name has left. They are kept. To restore, create an EtcdCluster of another name.", member)
}

// tellRestored writes an event once the data of a new cluster are restored.
func (p *pass) tellRestored(wanted etcdv1beta2.EtcdClusterStatus) {
	if restored := wanted.Restored; restored != nil && p.etcd.Status.Restored == nil {
		p.event(corev1.EventTypeNormal, model.Restored, "File %s of PersistentVolumeClaim %s is restored. It has revision %d.", restored.Path, restored.ClaimName, restored.Revision)
	}
}

// beginningWith are the clusters without members that wait for an EtcdBackup to restore.
func (r *Reconciler) beginningWith(ctx context.Context, backup client.Object) []reconcile.Request {
	var clusters etcdv1beta2.EtcdClusterList
	if err := r.options.Client.List(ctx, &clusters, client.InNamespace(backup.GetNamespace())); err != nil {
		r.options.Log.Error(err, "listing the EtcdClusters of a changed EtcdBackup")
		return nil
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		etcd := &clusters.Items[i]
		if (model.Cluster{Restore: etcd.Spec.Restore}).RestoreBackup() == backup.GetName() && len(etcd.Status.MemberStatuses) == 0 {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		}
	}
	return requests
}
