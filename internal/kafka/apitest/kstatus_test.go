package apitest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kstatus/kstatustest"
)

// wantKstatus compares what kstatus computes for the Kafka.
func (w *world) wantKstatus(when, want string) {
	w.t.Helper()
	kafka := &unstructured.Unstructured{}
	kafka.SetGroupVersionKind(kafkav1.GroupVersion.WithKind(kafkav1.KindKafka))
	w.get(clusterName, kafka)
	if got := kstatustest.Compute(w.t, kafka); got != want {
		w.t.Errorf("%s kstatus is %s, want %s: %v", when, got, want, kafka.Object["status"])
	}
}

func TestToolsThatWaitAreToldWhatBecomesOfAKafka(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(1)
	w.wantKstatus("before an operator looks", "InProgress")

	w.run(1)
	w.wantKstatus("while it is created", "InProgress")
	w.settle()
	w.wantKstatus("when it is ready", "Current")

	w.patchKafka(map[string]any{"version": "3.9.0"})
	w.wantKstatus("before an operator sees the change", "InProgress")
	w.settle()
	w.wantKstatus("with a version that is not supported", "Failed")

	w.patchKafka(map[string]any{"version": nil})
	w.settle()
	w.wantKstatus("after the correction", "Current")

	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": asked})
	w.run(2)
	w.wantKstatus("while it is paused", "Current")
}

func TestARestartIsInProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	w.patchKafka(map[string]any{"config": map[string]any{"num.io.threads": "9"}})
	w.run(2)

	w.wantReady()
	w.wantKstatus("while nodes are restarted", "InProgress")
	w.settle()
	w.wantKstatus("after all restarts", "Current")
}
