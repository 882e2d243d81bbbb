package apitest

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

func TestALostStatusIsRecoveredByDoingWhatReadySays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before, claims := w.ids(), w.claimUIDs()
	lost := &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster)}
	if err := w.person.Status().Patch(t.Context(), lost, merge(`{"status": {"memberStatuses": null}}`)); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		w.reconcile()
		w.play()
		w.keepsClaims(claims)
		ready := w.condition(etcdv1beta2.ConditionReady)
		if ready.Reason == "UnknownMemberPod" {
			w.delete(w.pod(strings.Fields(ready.Message)[1]))
		}
		if ready.Status == metav1.ConditionTrue && len(w.ids()) == 3 {
			break
		}
	}
	for name, id := range before {
		if w.ids()[name] != id {
			t.Errorf("member %s was %s and is %q; Ready is %+v", name, id, w.ids()[name], w.condition(etcdv1beta2.ConditionReady))
		}
	}
	w.atRest()
}
