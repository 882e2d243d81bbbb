package harness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
)

// Issued is the record of certificates of the members.
func (e Etcd) Issued(ctx context.Context) (enroll.Ledger, error) {
	stored := &corev1.ConfigMap{}
	if err := e.Kube.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: e.names().Ledger()}, stored); err != nil {
		return nil, fmt.Errorf("reading what was issued to EtcdCluster %s: %w", e.Name, err)
	}
	return enroll.ParseLedger(stored.Data)
}

// Loaded is what the status says that each member presents and trusts, by its name. It waits until all have reported.
func (e Etcd) Loaded(ctx context.Context) (map[string][]etcdv1beta2.LoadedPlane, error) {
	if _, err := e.UntilCondition(ctx, etcdv1beta2.ConditionCertificatesLoaded, metav1.ConditionTrue); err != nil {
		return nil, err
	}
	resource, err := e.Resource(ctx)
	if err != nil {
		return nil, err
	}
	loaded := map[string][]etcdv1beta2.LoadedPlane{}
	for i := range resource.Status.MemberStatuses {
		loaded[resource.Status.MemberStatuses[i].Name] = resource.Status.MemberStatuses[i].Loaded
	}
	return loaded, nil
}

// UntilCondition waits until a condition of the cluster has a status.
func (e Etcd) UntilCondition(ctx context.Context, kind string, status metav1.ConditionStatus) (metav1.Condition, error) {
	var found metav1.Condition
	err := e.Kube.Follow(ctx, &etcdv1beta2.EtcdClusterList{}, func(objects Objects) (bool, error) {
		resource, exists := objects[e.Name].(*etcdv1beta2.EtcdCluster)
		if !exists {
			return false, nil
		}
		if condition := meta.FindStatusCondition(resource.Status.Conditions, kind); condition != nil {
			found = *condition
		}
		return found.Status == status, nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return found, fmt.Errorf("waiting until the condition %s of EtcdCluster %s is %s: %w; it is %+v", kind, e.Name, status, err, found)
	}
	return found, nil
}
