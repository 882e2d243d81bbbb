package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/user/model"
)

// surveyTime is how long users that cannot be reconciled keep the others from being reissued in order.
const surveyTime = time.Minute

// turns knows the users whose certificate is reissued now although it serves. A process that has just started knows of
// none: who waits follows from the certificates that are stored.
type turns struct {
	mu      sync.Mutex
	granted map[types.NamespacedName]bool
	// last is when the previous batch was.
	last time.Time
	// clientsCA is surveyed since a time.
	clientsCA clientsCAVersion
	since     time.Time
}

func newTurns() *turns { return &turns{granted: map[types.NamespacedName]bool{}} }

func (t *turns) has(user types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.granted[user]
}

func (t *turns) end(user types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.granted, user)
}

// surveyEnds is when users are reissued although some were not looked at since the clients CA changed.
func (t *turns) surveyEnds(ca clientsCAVersion, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() || t.clientsCA != ca {
		t.clientsCA, t.since = ca, now
	}
	return t.since.Add(surveyTime)
}

// grant gives the next users their turn, and says when those after them are due.
func (t *turns) grant(users []model.Seen, rate int, now time.Time) (batch []model.Seen, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := make([]model.Seen, 0, len(users))
	for _, user := range users {
		if !t.granted[user.User] {
			waiting = append(waiting, user)
		}
	}
	batch, next = model.NextBatch(waiting, rate, t.last, now)
	for _, user := range batch {
		t.granted[user.User], t.last = true, now
	}
	return batch, next
}
