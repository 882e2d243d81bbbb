package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

func TestABackupIsLookedAtWhenItsClusterGetsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	with := func(kind string, status metav1.ConditionStatus) *etcdv1beta2.EtcdCluster {
		return &etcdv1beta2.EtcdCluster{Status: etcdv1beta2.EtcdClusterStatus{Conditions: []metav1.Condition{{Type: kind, Status: status}}}}
	}
	for kind, want := range map[string]bool{
		etcdv1beta2.ConditionAvailable: true, etcdv1beta2.ConditionPKIReady: true, etcdv1beta2.ConditionAttestationEnforced: true,
		etcdv1beta2.ConditionReady: false, etcdv1beta2.ConditionVolumesDiffer: false,
	} {
		got := becomesAvailable().Update(event.UpdateEvent{ObjectOld: with(kind, metav1.ConditionFalse), ObjectNew: with(kind, metav1.ConditionTrue)})
		if again := becomesAvailable().Update(event.UpdateEvent{ObjectOld: with(kind, metav1.ConditionTrue), ObjectNew: with(kind, metav1.ConditionTrue)}); got != want || again {
			t.Errorf("%s: looked at when it becomes True: %t, when it stays so: %t", kind, got, again)
		}
	}
}

// The recorder folds events of one reason about one object, whatever they say.
func TestEventsOfTwoPlanesAreAboutDifferentThings(t *testing.T) {
	t.Parallel()
	if peer, client := concern("Pod", "etcd", "my-cluster-0", "peer"), concern("Pod", "etcd", "my-cluster-0", "client"); *peer == *client {
		t.Errorf("both are about %+v", peer)
	}
}
