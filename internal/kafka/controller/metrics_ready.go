package controller

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/api/condition"
)

// nothingTold is the reason of a Kafka without a condition that says whether it is ready.
const nothingTold = "Unknown"

// readyFigure is what the conditions of a Kafka say of its readiness.
type readyFigure struct {
	// value is 1 when it is ready, and 0 when it is not.
	value float64
	// reason is why it is not.
	reason string
}

// readyFigureOf reads what the conditions say. One that is paused is not judged: it has
// neither of the two conditions, and counts as not ready for a reason of its own.
func readyFigureOf(conditions []condition.Condition) readyFigure {
	figure := readyFigure{reason: nothingTold}
	for _, c := range conditions {
		switch {
		case c.Status != condition.True:
		case c.Type == condition.Ready:
			return readyFigure{value: 1}
		case c.Type == condition.NotReady:
			return readyFigure{reason: c.Reason}
		case c.Type == condition.ReconciliationPaused:
			figure.reason = c.Reason
		}
	}
	return figure
}

// told takes over what people are told of a Kafka, whether or not it can be written.
func (m *Metrics) told(kafka types.NamespacedName, conditions []condition.Condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readies[kafka] = readyFigureOf(conditions)
}

// recall takes over what was told of a Kafka by the operator before this one, until a reconcile
// of this one tells something.
func (m *Metrics) recall(kafka types.NamespacedName, conditions []condition.Condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.readies[kafka]; !known {
		m.readies[kafka] = readyFigureOf(conditions)
	}
}
