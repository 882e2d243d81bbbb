package etcdload

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/probe/ledger"
)

// Account counts what became of the operations of all clients.
type Account struct {
	// Writes are the logical ones that were acknowledged, and Failed those that were given
	// up at the deadline. Retries are the attempts after the first of each.
	Writes, Failed, Retries uint64
	// Reads have answers, and Unread have none.
	Reads, Unread uint64
	// Stall is the longest time without an acknowledged write of any writer.
	Stall ledger.Gap
	// Slowest is how long the slowest acknowledged write took, with its retries.
	Slowest time.Duration
	// Acks are the acknowledged writes over time, and Failures when writes failed.
	Acks     ledger.Rate
	Failures []time.Time
}

// account is an Account in the making.
type account struct {
	Account

	mu   sync.Mutex
	last time.Time
}

func (a *account) change(by func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by()
}

func (a *account) retried() { a.change(func() { a.Retries++ }) }
func (a *account) read()    { a.change(func() { a.Reads++ }) }
func (a *account) unread()  { a.change(func() { a.Unread++ }) }

// failed records a write that is given up.
func (a *account) failed(now time.Time) {
	a.change(func() {
		a.Failed++
		a.Failures = append(a.Failures, now)
	})
}

// wrote records a write that was begun at a time and acknowledged at another.
func (a *account) wrote(begun, now time.Time) {
	a.change(func() {
		a.Writes++
		a.Slowest = max(a.Slowest, now.Sub(begun))
		a.Acks.Add(now)
		a.stall(now)
	})
}

// stall ends the time without an acknowledgement.
func (a *account) stall(now time.Time) {
	a.Stall = a.Stall.Longer(ledger.Gap{From: a.last, Length: now.Sub(a.last)})
	if now.After(a.last) {
		a.last = now
	}
}

// close returns the account at its end.
func (a *account) close(now time.Time) Account {
	a.change(func() { a.stall(now) })
	return a.Account
}
