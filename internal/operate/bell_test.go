package operate_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keyturn/keyturn/internal/operate"
)

func TestABellHasAResourceReconciledOnceTheControllerHasStarted(t *testing.T) {
	t.Parallel()
	var bell operate.Bell
	bell.Ring(types.NamespacedName{Name: "early"}, 0)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := bell.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	bell.Ring(types.NamespacedName{Name: "late"}, 0)
	if request, _ := queue.Get(); request.Name != "late" || queue.Len() != 0 {
		t.Errorf("%s is reconciled, and %d more", request.Name, queue.Len())
	}
}
