package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// Version is a change for Create: the version of etcd.
func Version(version string) func(*unstructured.Unstructured) error {
	return func(cluster *unstructured.Unstructured) error {
		return unstructured.SetNestedField(cluster.Object, version, "spec", "version")
	}
}

// EtcdEnv is a change for Create: one variable that etcd starts with.
func EtcdEnv(name, value string) func(*unstructured.Unstructured) error {
	return func(cluster *unstructured.Unstructured) error {
		return unstructured.SetNestedSlice(cluster.Object, []any{map[string]any{"name": name, "value": value}}, "spec", "pod", "etcdEnv")
	}
}

// Change changes fields of the cluster.
func (e Etcd) Change(ctx context.Context, patch map[string]any) error {
	return e.Kube.MergePatch(ctx, &etcdv1beta2.EtcdCluster{ObjectMeta: e.named(e.Name)}, patch)
}

func (e Etcd) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: e.Namespace, Name: name}
}

// IDs are the ids of the members in the status, by name.
func (e Etcd) IDs(ctx context.Context) (map[string]string, error) {
	resource, err := e.Resource(ctx)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, member := range resource.Status.MemberStatuses {
		ids[member.Name] = member.MemberID
	}
	return ids, nil
}

// DeletePods deletes the pods of members, and DeleteClaims their claims, which stay as long as
// pods use them.
func (e Etcd) DeletePods(ctx context.Context, members ...string) error {
	problems := make([]error, 0, len(members))
	for _, member := range members {
		problems = append(problems, e.Kube.Delete(ctx, &corev1.Pod{ObjectMeta: e.named(member)}))
	}
	return errors.Join(problems...)
}

// DeleteClaims see DeletePods.
func (e Etcd) DeleteClaims(ctx context.Context, members ...string) error {
	problems := make([]error, 0, len(members))
	for _, member := range members {
		problems = append(problems, e.Kube.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: e.named(e.names().Claim(member))}))
	}
	return errors.Join(problems...)
}

// Claims are the UIDs of the claims of the cluster that are not being deleted, by name.
func (e Etcd) Claims(ctx context.Context) (map[string]types.UID, error) {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := e.Kube.List(ctx, claims, selected(e.Namespace, map[string]string{model.ClusterLabel: e.Name})...); err != nil {
		return nil, fmt.Errorf("listing the claims of EtcdCluster %s: %w", e.Name, err)
	}
	uids := map[string]types.UID{}
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp == nil {
			uids[claims.Items[i].Name] = claims.Items[i].UID
		}
	}
	return uids, nil
}

// Pods are the UIDs of the pods of the cluster, by name.
func (e Etcd) Pods(ctx context.Context) (map[string]types.UID, error) {
	pods := &corev1.PodList{}
	if err := e.Kube.List(ctx, pods, selected(e.Namespace, map[string]string{model.ClusterLabel: e.Name})...); err != nil {
		return nil, fmt.Errorf("listing the pods of EtcdCluster %s: %w", e.Name, err)
	}
	uids := map[string]types.UID{}
	for i := range pods.Items {
		uids[pods.Items[i].Name] = pods.Items[i].UID
	}
	return uids, nil
}

// EmptyVolume takes the data of a member away under its pod, and kills the process that sees it. It needs to be on the
// machine of the pod.
func (e Etcd) EmptyVolume(ctx context.Context, member string) error {
	pods, err := e.Pods(ctx)
	if err != nil {
		return err
	}
	inside, err := InsideOf(pods[member], contract.DataDir)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(inside.Root, contract.DataDir)); err != nil {
		return fmt.Errorf("emptying the volume of member %s: %w", member, err)
	}
	if err := syscall.Kill(inside.Process, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing a process of member %s: %w", member, err)
	}
	return nil
}

// UntilEvictable waits until so many pods of the cluster may be evicted.
func (e Etcd) UntilEvictable(ctx context.Context, pods int32) error {
	last := policyv1.PodDisruptionBudgetStatus{}
	err := e.Kube.Follow(ctx, &policyv1.PodDisruptionBudgetList{}, func(objects Objects) (bool, error) {
		if budget, found := objects[e.Name].(*policyv1.PodDisruptionBudget); found {
			last = budget.Status
		}
		return last.DisruptionsAllowed == pods && last.ObservedGeneration > 0, nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return fmt.Errorf("waiting until %d pods of EtcdCluster %s may be evicted: %w; the budget is %+v", pods, e.Name, err, last)
	}
	return nil
}

// UntilStatus waits until the status of the present specification is as wanted.
func (e Etcd) UntilStatus(ctx context.Context, wanted func(etcdv1beta2.EtcdClusterStatus) bool) error {
	var last etcdv1beta2.EtcdClusterStatus
	err := e.Kube.Follow(ctx, &etcdv1beta2.EtcdClusterList{}, func(objects Objects) (bool, error) {
		resource, found := objects[e.Name].(*etcdv1beta2.EtcdCluster)
		if !found {
			return false, nil
		}
		last = resource.Status
		return last.ObservedGeneration == resource.Generation && wanted(last), nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return fmt.Errorf("waiting for a status of EtcdCluster %s: %w; it is %+v", e.Name, err, last)
	}
	return nil
}

// IsReady reports whether a cluster is as its specification wants it.
func IsReady(status etcdv1beta2.EtcdClusterStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, etcdv1beta2.ConditionReady)
}

// IsHeldBy reports whether a reason keeps a cluster from being ready.
func IsHeldBy(status etcdv1beta2.EtcdClusterStatus, reason string) bool {
	ready := meta.FindStatusCondition(status.Conditions, etcdv1beta2.ConditionReady)
	return ready != nil && ready.Reason == reason
}
