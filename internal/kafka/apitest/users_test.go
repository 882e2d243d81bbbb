package apitest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1ac "github.com/keyturn/keyturn/api/kafka/v1/applyconfiguration/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube"
)

// userOperator is the field manager of the user operator.
const userOperator = "keyturn-user-operator"

// reportUsers writes seven users of the cluster as the user operator does, some of them with a current certificate.
func (w *world) reportUsers(reissued int32) {
	w.t.Helper()
	status := kafkav1ac.KafkaStatus().WithUsers(kafkav1ac.UsersStatus().WithTotal(7).WithReady(7).WithReissued(reissued))
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
	w.settle()
	before := w.faulty.Written
	w.run(2)
	if w.faulty.Written != before {
		t.Errorf("%d writes after the user operator has reported users, want none", w.faulty.Written-before)
	}
	unset := client.RawPatch(types.MergePatchType, []byte(`{"status": {"clusterId": null}}`))
	if err := w.api.Status().Patch(t.Context(), w.getKafka(), unset); err != nil {
		t.Fatal(err)
	}
	w.settle()
	kafka := w.getKafka()
	if users := kafka.Status.Users; kafka.Status.ClusterId == "" || users == nil || users.Total != 7 || users.Ready != 7 || users.Reissued != 7 {
		t.Errorf("the status has users %+v and cluster id %q, want both", users, kafka.Status.ClusterId)
	}
	for _, entry := range kafka.ManagedFields {
		if entry.Manager != userOperator && strings.Contains(entry.FieldsV1.GetRawString(), "f:users") {
			t.Errorf("%s owns users as well", entry.Manager)
		}
	}
}

func TestAConditionTellsWhetherUsersWaitForACertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	const kind condition.Type = "UserCertificatesCurrent"
	isKind := func(c condition.Condition) bool { return c.Type == kind }
	if slices.ContainsFunc(w.getKafka().Status.Conditions, isKind) {
		t.Errorf("%s is there, and no user operator has counted users", kind)
	}
	for _, c := range []struct {
		reissued int32
		status   condition.Status
		reason   string
		message  string
	}{
		{3, condition.False, "Reissuing", "4 of 7"},
		{7, condition.True, "Current", "all 7"},
	} {
		w.reportUsers(c.reissued)
		w.settle()
		w.wantReason(kind, c.reason, c.message)
		conditions := w.getKafka().Status.Conditions
		if got := conditions[slices.IndexFunc(conditions, isKind)]; got.Status != c.status {
			t.Errorf("with %d of 7 users reissued the condition is %s, want %s", c.reissued, got.Status, c.status)
		}
	}
}
