package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/user/model"
)

// memory knows of each user in which state of the world it was last brought up to date: an event that changes
// nothing of that costs no request.
type memory struct {
	mu    sync.Mutex
	users map[types.NamespacedName]remembered
	// news counts what has happened to objects that the cache does not hold.
	news map[types.NamespacedName]uint64
}

type remembered struct {
	version version
	outcome outcome
}

func newMemory() *memory {
	return &memory{users: map[types.NamespacedName]remembered{}, news: map[types.NamespacedName]uint64{}}
}

// of returns the last outcome, and whether it still stands at a time.
func (m *memory) of(user types.NamespacedName, now version, at time.Time) (outcome, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.users[user]
	isDue := !last.outcome.wake.IsZero() && !at.Before(last.outcome.wake)
	return last.outcome, known && last.version == now && !isDue
}

// unnoticed is what the last reconcile of a user has warned of that it would not notice.
func (m *memory) unnoticed(user types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.users[user].version.unnoticed
}

// knows reports whether a user has been brought up to date.
func (m *memory) knows(user types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.users[user]
	return known
}

// remember reports whether the user is seen otherwise than before.
func (m *memory) remember(user types.NamespacedName, v version, done outcome) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.users[user]
	m.users[user] = remembered{v, done}
	return !known || last.outcome.seen(user) != done.seen(user) || last.version.clientsCA() != v.clientsCA()
}

// seen is a user as its last reconcile left it, and whether that saw these Secrets of the clients CA.
func (m *memory) seen(user types.NamespacedName, ca clientsCAVersion) (model.Seen, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.users[user]
	if !known {
		return model.Seen{User: user}, false
	}
	return last.outcome.seen(user), last.version.clientsCA() == ca
}

func (o outcome) seen(user types.NamespacedName) model.Seen {
	return model.Seen{User: user, IsKnown: true, IsReady: o.isReady, Waits: o.waits, AwaitsTrust: o.awaitsTrust, NotBefore: o.notBefore, NotAfter: o.notAfter}
}

func (m *memory) forget(user types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.users, user)
	delete(m.news, user)
}

// awaitTrust are the users whose certificate is to be reissued when all nodes trust the CA that signs.
func (m *memory) awaitTrust() []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	var users []types.NamespacedName
	for user, last := range m.users {
		if last.outcome.awaitsTrust {
			users = append(users, user)
		}
	}
	return users
}

// tell notes that something has happened to an object that a user refers to.
func (m *memory) tell(user types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news[user]++
}

// told is how often that was noted.
func (m *memory) told(user types.NamespacedName) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news[user]
}
