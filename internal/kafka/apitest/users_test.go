package apitest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1ac "github.com/keyturn/keyturn/api/kafka/v1/applyconfiguration/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube"
)

// userOperator is the field manager of the user operator.
const userOperator = "keyturn-user-operator"

// reportUsers writes the users of the cluster as the user operator does.
func (w *world) reportUsers(total int32) {
	w.t.Helper()
	status := kafkav1ac.KafkaStatus().WithUsers(kafkav1ac.UsersStatus().WithTotal(total).WithReady(total).WithReissued(total))
	intent := kafkav1ac.Kafka(clusterName, w.getKafka().Namespace).WithStatus(status)
	if err := kube.NewApplier(w.api, userOperator).ApplyStatus(w.t.Context(), intent); err != nil {
		w.t.Fatal(err)
	}
}

func TestTheUsersInTheStatusAreTheUserOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.reportUsers(7)
	before := w.faulty.writes
	w.run(2)
	if w.faulty.writes != before {
		t.Errorf("%d writes after the user operator has reported users, want none", w.faulty.writes-before)
	}
	unset := client.RawPatch(types.MergePatchType, []byte(`{"status": {"clusterId": null}}`))
	if err := w.api.Status().Patch(t.Context(), w.getKafka(), unset); err != nil {
		t.Fatal(err)
	}
	w.settle()
	kafka := w.getKafka()
	if users := kafka.Status.Users; kafka.Status.ClusterId == "" || users == nil || *users != (kafkav1.UsersStatus{Total: 7, Ready: 7, Reissued: 7}) {
		t.Errorf("the status has users %+v and cluster id %q, want both", users, kafka.Status.ClusterId)
	}
	for _, entry := range kafka.ManagedFields {
		if entry.Manager != userOperator && strings.Contains(entry.FieldsV1.GetRawString(), "f:users") {
			t.Errorf("%s owns users as well", entry.Manager)
		}
	}
}
