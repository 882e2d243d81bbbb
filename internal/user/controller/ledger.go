package controller

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/kafka/rounds"
)

const (
	// passwordPause is between two passwords that are set again after a start.
	passwordPause = time.Second / 20
)

// ledger knows what Kafka holds for users: from one round of descriptions for all of them, and from its own changes
// since then.
type ledger struct {
	client admin.UsersClient

	// gate is held for reading while a user is changed, and for writing during a round: no round shows half a change.
	gate sync.RWMutex

	mu         sync.Mutex
	kafka      types.UID
	entries    map[string]entry
	authorizes bool
	schedule   rounds.Schedule
	revision   uint64
	proven     map[string][sha256.Size]byte
	turns      map[string]time.Time
	lastTurn   time.Time
}

// entry is what Kafka holds for one user name, with a number that changes whenever that does.
type entry struct {
	held     principal.Held
	revision uint64
	written  time.Time
}

func newLedger(client admin.UsersClient) *ledger {
	l := &ledger{client: client}
	l.reset("")
	return l
}

// reset forgets everything: another cluster has the name.
func (l *ledger) reset(kafka types.UID) {
	l.kafka, l.entries, l.authorizes = kafka, map[string]entry{}, false
	l.schedule.Restart()
	l.proven, l.turns, l.lastTurn = map[string][sha256.Size]byte{}, map[string]time.Time{}, time.Time{}
}

// look describes all users of a cluster when that is due, and reports whether it has. The error is that of the last
// attempt, also where none is due.
func (l *ledger) look(ctx context.Context, kafka types.UID, now time.Time) (bool, error) {
	if isDue, err := l.due(kafka, now); !isDue {
		return false, err
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	if isDue, err := l.due(kafka, now); !isDue {
		return false, err
	}
	users, err := l.client.DescribeUsers(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("describing users: %w", err)
		l.schedule.Fail(err, now)
		return false, err
	}
	l.take(users, now)
	return true, nil
}

func (l *ledger) due(kafka types.UID, now time.Time) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kafka != kafka {
		l.reset(kafka)
	}
	return l.schedule.Due(now)
}

// take replaces what was known by what a round has shown, except for what was written just now.
func (l *ledger) take(users admin.Users, now time.Time) {
	before := l.entries
	l.entries = make(map[string]entry, len(users.Held))
	for name, held := range users.Held {
		if old, is := before[name]; is && old.held.Equal(held) {
			l.entries[name] = old
			continue
		}
		l.revision++
		l.entries[name] = entry{held: held, revision: l.revision}
	}
	for name, old := range before {
		if now.Sub(old.written) < rounds.Lag {
			l.entries[name] = old
		}
	}
	l.authorizes = users.Authorizes
	l.schedule.Described(now)
}

// failed notes that a change did not reach Kafka: nothing else is tried until the next attempt to describe users.
func (l *ledger) failed(err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule.FailChange(err, now)
}

// nextLook is when look asks Kafka again.
func (l *ledger) nextLook() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.schedule.Next()
}

// held is what Kafka holds for a user name.
func (l *ledger) held(username string) principal.Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[username].held
}

// all is what Kafka holds for all user names.
func (l *ledger) all() map[string]principal.Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]principal.Held, len(l.entries))
	for name, known := range l.entries {
		all[name] = known.held
	}
	return all
}

func (l *ledger) isAuthorizing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.authorizes
}

// sight tells whether what Kafka holds for a user has changed. Its revisions are zero where Kafka holds nothing.
type sight struct {
	revisions  [2]uint64
	authorizes bool
}

func (l *ledger) sight(usernames [2]string) sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sight{[2]uint64{l.entries[usernames[0]].revision, l.entries[usernames[1]].revision}, l.authorizes}
}

// note records a change that Kafka has confirmed.
func (l *ledger) note(username string, now time.Time, to func(*principal.Held)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.entries[username].held
	held.Quotas = maps.Clone(held.Quotas)
	if held.Quotas == nil {
		held.Quotas = map[principal.Quota]float64{}
	}
	to(&held)
	held.ACLs = principal.Sorted(held.ACLs)
	l.revision++
	l.entries[username] = entry{held: held, revision: l.revision, written: now}
	l.schedule.Changed()
}

// passwordDue is when a password is to be set, zero when Kafka is known to have it. Kafka does not tell which password
// it has: one that this process has not set is set again once, in turn.
func (l *ledger) passwordDue(username, password string, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	set, isProven := l.proven[username]
	switch {
	case !l.entries[username].held.HasPassword, isProven && set != sha256.Sum256([]byte(password)):
		return now
	case isProven:
		return time.Time{}
	}
	turn, has := l.turns[username]
	if !has {
		turn = l.lastTurn.Add(passwordPause)
		if turn.Before(now) {
			turn = now
		}
		l.turns[username], l.lastTurn = turn, turn
	}
	return turn
}

func (l *ledger) prove(username, password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns, username)
	l.proven[username] = sha256.Sum256([]byte(password))
}

// forget drops what is known of the passwords of a user.
func (l *ledger) forget(username string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns, username)
	delete(l.proven, username)
}
