package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// docs/monitoring.md leaves a Kafka that is being created out of the alert for one that is
// not ready, and gives it half an hour. Whoever corrects a mistake, or takes off a pause,
// meanwhile does not end its creation: no broker has ever told its metadata version.
func TestACorrectedMistakeDoesNotEndTheCreationOfACluster(t *testing.T) {
	t.Parallel()
	for name, reported := range map[string]condition.Condition{
		"a mistake was corrected": {Type: condition.NotReady, Status: condition.True, Reason: "InvalidResourceException"},
		"the API server failed":   {Type: condition.NotReady, Status: condition.True, Reason: reasonFailed},
		"it was paused":           {Type: condition.ReconciliationPaused, Status: condition.True, Reason: reasonPaused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafka := smallKafka()
			kafka.Status.OperatorLastSuccessfulVersion = "0.1.0"
			kafka.Status.Conditions = []condition.Condition{reported}
			c := clusterOf(kafka, map[string]*corev1.Pod{})
			if got := c.unready(outcome{}).reason; got != reasonCreating {
				t.Errorf("reason %s, want %s", got, reasonCreating)
			}
		})
	}
}
