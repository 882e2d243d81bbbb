package apitest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// newLimited is a world whose operator runs with rights that the test grants and takes away, and the time of its observer.
func newLimited(t *testing.T) (*world, *chartstest.Limited, *clocktesting.FakeClock) {
	t.Helper()
	person := connect(t, apiServer)
	namespace, private := kubetest.Namespace(t, person, "etcd-"), kubetest.Namespace(t, person, "operator-")
	limited := chartstest.Limit(t, person, apiServer, filepath.Join("..", "..", ".."), chartstest.EtcdOperatorAccess, "limited-"+namespace)
	limited.Allow("")
	w := newWorldIn(t, namespace, private, connect(t, limited.Config), of(1))
	w.clock.SetTime(time.Now())
	w.etcd.Before, w.grantsAccess = nil, true
	clock := clocktesting.NewFakeClock(time.Now())
	w.observer = watches.NewObserver(clock)
	w.runIn(limited.Config, &writes{})
	return w, limited, clock
}

func TestAnEtcdAccessWhoseWatchIsDeniedSaysSo(t *testing.T) {
	t.Parallel()
	w, limited, clock := newLimited(t)
	w.access(w.namespace, "")
	becomes := func(reason, message string) {
		t.Helper()
		w.eventually("the EtcdAccess is "+reason, func() bool {
			limited.Pass(clock)
			access := &keyturnv1alpha1.EtcdAccess{}
			if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: application}, access); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(access.Status.Conditions, keyturnv1alpha1.ConditionReady)
			return ready != nil && ready.Reason == reason && strings.Contains(ready.Message, message)
		})
	}
	becomes("SecretReady", "")
	w.eventually("EtcdClusters are watched", func() bool { return limited.Watches("etcdclusters") })
	limited.Allow("etcdclusters", "list", "watch")
	becomes("Forbidden", "Grant its ServiceAccount the verbs list and watch on etcdclusters.etcd.database.coreos.com in namespace "+w.namespace)
	limited.Allow("")
	becomes("SecretReady", "")
}

func TestAnEtcdClusterWhoseWatchIsDeniedSaysSoAndStaysReady(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"etcdclusters", "poddisruptionbudgets"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			w, limited, clock := newLimited(t)
			says := func(text string) func() bool {
				return func() bool {
					limited.Pass(clock)
					return w.condition(etcdv1beta2.ConditionReady).Status == metav1.ConditionTrue &&
						strings.Contains(w.condition(etcdv1beta2.ConditionWatchDenied).Message, text) &&
						(text == "") == (w.condition(etcdv1beta2.ConditionWatchDenied).Reason == "")
				}
			}
			w.eventually("the cluster is ready", says(""))
			w.eventually("it is watched", func() bool { return limited.Watches(resource) })
			limited.Allow(resource, "list", "watch")
			w.eventually("the cluster says so", says("Grant its ServiceAccount the verbs list and watch on "+resource))
			if reason := w.condition(etcdv1beta2.ConditionWatchDenied).Reason; reason != "Forbidden" {
				t.Errorf("the reason is %s", reason)
			}
			limited.Allow("")
			w.eventually("the cluster says so no more", says(""))
		})
	}
}
