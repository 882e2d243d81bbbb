package apitest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

func TestAnEtcdAccessWhoseWatchIsDeniedSaysSo(t *testing.T) {
	t.Parallel()
	person := connect(t, apiServer)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "etcd-"}}
	if err := person.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	limited := chartstest.Limit(t, person, apiServer, filepath.Join("..", "..", ".."), chartstest.EtcdOperatorAccess, "limited-"+namespace.Name)
	limited.Allow("")
	w := newWorldIn(t, namespace.Name, "keyturn", connect(t, limited.Config), of(1))
	w.clock.SetTime(time.Now())
	w.etcd.Before, w.grantsAccess = nil, true
	clock := clocktesting.NewFakeClock(time.Now())
	w.observer = watches.NewObserver(clock)
	w.runIn(limited.Config, &writes{})
	w.access(w.namespace, "")
	becomes := func(reason, message string) {
		t.Helper()
		w.eventually("the EtcdAccess is "+reason, func() bool {
			clock.Step(2 * time.Second)
			access := &keyturnv1alpha1.EtcdAccess{}
			if err := person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: application}, access); err != nil {
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
