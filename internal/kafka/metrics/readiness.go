package metrics

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/api/condition"
)

// nothingTold is the reason of a Kafka without a condition that says whether it is ready.
const nothingTold = "Unknown"

// readiness is what the conditions of a Kafka say of its readiness.
type readiness struct {
	// value is 1 when it is ready, and 0 when it is not.
	value float64
	// reason is why it is not.
	reason string
}

// readinessOf reads what the conditions say. One that is paused is not judged: it has
// neither of the two conditions, and counts as not ready for a reason of its own.
func readinessOf(conditions []condition.Condition) readiness {
	figure := readiness{reason: nothingTold}
	for _, c := range conditions {
		switch {
		case c.Status != condition.True:
		case c.Type == condition.Ready:
			return readiness{value: 1}
		case c.Type == condition.NotReady:
			return readiness{reason: c.Reason}
		case c.Type == condition.ReconciliationPaused:
			figure.reason = c.Reason
		}
	}
	return figure
}

// Told takes over what people are told of a Kafka, whether or not it can be written.
func (m *Metrics) Told(kafka types.NamespacedName, conditions []condition.Condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readies[kafka] = readinessOf(conditions)
}

// Recall takes over what was told of a Kafka by the operator before this one, until a reconcile
// of this one tells something.
func (m *Metrics) Recall(kafka types.NamespacedName, conditions []condition.Condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.readies[kafka]; !known {
		m.readies[kafka] = readinessOf(conditions)
	}
}
