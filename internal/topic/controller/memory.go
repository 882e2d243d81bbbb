package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/operate"
)

// memory knows of each topic in which state of the world it was last brought up to date: an event that changes nothing of that costs
// no request.
type memory struct {
	operate.Known[types.NamespacedName, remembered]
}

type remembered struct {
	version version
	outcome outcome
}

// last returns the last outcome, and whether it still stands at a time.
func (m *memory) last(topic types.NamespacedName, now version, at time.Time) (outcome, bool) {
	last, isKnown := m.Of(topic)
	isDue := !last.outcome.wake.IsZero() && !at.Before(last.outcome.wake)
	return last.outcome, isKnown && last.version == now && !isDue
}
