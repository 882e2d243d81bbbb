package controller

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/operate"
	"github.com/keyturn/keyturn/internal/user/model"
)

// memory knows of each user in which state of the world it was last brought up to date: an event that changes
// nothing of that costs no request.
type memory struct {
	users operate.Known[types.NamespacedName, remembered]
	// news are the numbers of what has happened last to objects that the cache does not hold, of all users together.
	news   operate.Known[types.NamespacedName, uint64]
	number atomic.Uint64
}

type remembered struct {
	version version
	outcome outcome
}

// of returns the last outcome, and whether it still stands at a time.
func (m *memory) of(user types.NamespacedName, now version, at time.Time) (outcome, bool) {
	last, isKnown := m.users.Of(user)
	isDue := !last.outcome.wake.IsZero() && !at.Before(last.outcome.wake)
	return last.outcome, isKnown && last.version == now && !isDue
}

// remember reports whether the user is seen otherwise than before.
func (m *memory) remember(user types.NamespacedName, v version, done outcome) bool {
	last, wasKnown := m.users.Put(user, remembered{v, done})
	return !wasKnown || last.outcome.seen(user) != done.seen(user) || last.version.clientsCA() != v.clientsCA()
}

// seen is a user as its last reconcile left it, and whether that saw these Secrets of the clients CA.
func (m *memory) seen(user types.NamespacedName, ca clientsCAVersion) (model.Seen, bool) {
	last, isKnown := m.users.Of(user)
	if !isKnown {
		return model.Seen{User: user}, false
	}
	return last.outcome.seen(user), last.version.clientsCA() == ca
}

func (o outcome) seen(user types.NamespacedName) model.Seen {
	return model.Seen{User: user, IsKnown: true, IsReady: o.isReady, Waits: o.waits, AwaitsTrust: o.awaitsTrust, NotBefore: o.notBefore, NotAfter: o.notAfter}
}

func (m *memory) forget(user types.NamespacedName) {
	m.users.Forget(user)
	m.news.Forget(user)
}

// awaitTrust are the users whose certificate is to be reissued when all nodes trust the CA that signs.
func (m *memory) awaitTrust() []types.NamespacedName {
	var users []types.NamespacedName
	for user, last := range m.users.All() {
		if last.outcome.awaitsTrust {
			users = append(users, user)
		}
	}
	return users
}

// tell notes that something has happened to an object that a user refers to.
func (m *memory) tell(user types.NamespacedName) { m.news.Put(user, m.number.Add(1)) }

// told is another number whenever that was noted.
func (m *memory) told(user types.NamespacedName) uint64 {
	number, _ := m.news.Of(user)
	return number
}
