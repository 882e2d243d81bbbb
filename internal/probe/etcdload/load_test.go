package etcdload

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// memory is a store that can lose writes, answer with old values, and leave clients
// without an answer.
type memory struct {
	mu       sync.Mutex
	revision int64
	values   map[string][]Versioned
	asked    int
	// Of so many requests, one is not answered, not written, lost or answered with an old value.
	unanswered, unwritten, lost, stale int
	// While it is down, it serves nothing, and while it is mute, it writes without an answer.
	down, mute bool
}

const answersAfter = 3 * time.Millisecond

var errNoAnswer = errors.New("no answer")

func (m *memory) turn(every int) bool { return every > 0 && m.asked%every == 0 }

func (m *memory) has(key string) Versioned {
	if versions := m.values[key]; len(versions) > 0 {
		return versions[len(versions)-1]
	}
	return Versioned{}
}

func (m *memory) Get(ctx context.Context, key string) (Versioned, error) {
	pause(ctx, answersAfter)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked++; m.down || m.mute {
		return Versioned{}, errNoAnswer
	}
	if versions := m.values[key]; m.turn(m.stale) && len(versions) > 2 {
		return versions[len(versions)-3], nil
	}
	return m.has(key), nil
}

func (m *memory) Swap(ctx context.Context, key, value string, revision int64) (Versioned, error) {
	pause(ctx, answersAfter)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked++; m.down || m.turn(m.unwritten) {
		return Versioned{}, errNoAnswer
	}
	if m.has(key).Revision != revision && m.mute {
		return Versioned{}, errNoAnswer
	}
	if m.has(key).Revision != revision {
		return m.has(key), nil
	}
	m.revision++
	written := Versioned{value, m.revision}
	if m.turn(m.lost) {
		return written, nil
	}
	m.values[key] = append(m.values[key], written)
	if m.mute || m.turn(m.unanswered) {
		return Versioned{}, errNoAnswer
	}
	return written, nil
}

func (m *memory) set(which *bool, to bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*which = to
}

// played is the result of a load on a store, while something happens to it.
func played(t *testing.T, m *memory, happens func(context.Context)) Result {
	t.Helper()
	m.values = map[string][]Versioned{}
	options := Defaults(clock.RealClock{})
	options.Prefix = "load"
	load := newLoad(options)
	load.begin(t.Context(), func(int) Store { return m })
	happens(t.Context())
	return load.finish(t.Context(), m)
}

func aWhile(ctx context.Context) { pause(ctx, 2*time.Minute) }

func TestALoadFindsOutWhatAStoreDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store             *memory
		retries, accepted bool
	}{
		"it serves":                      {&memory{}, false, true},
		"it writes and does not answer":  {&memory{unanswered: 7}, true, true},
		"it neither writes nor answers":  {&memory{unwritten: 7}, true, true},
		"it loses an acknowledged write": {&memory{lost: 501}, true, false},
		"it answers with what a key had": {&memory{stale: 1009}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				result := played(t, c.store, aWhile)
				if result.Failed > 0 || result.Writes < Writers*chapter || result.Reads == 0 || result.Unread > 0 || result.Keys <= Writers {
					t.Errorf("the account is %+v, with %d keys", result.Account, result.Keys)
				}
				if (result.Retries > 0) != c.retries || (len(result.Problems) == 0) != c.accepted {
					t.Errorf("%d retries, to be there: %t; problems, to be none: %t: %v", result.Retries, c.retries, c.accepted, result.Problems)
				}
			})
		})
	}
}

func TestAnOutageShorterThanTheDeadlineFailsNoWriteAndALongerOneDoes(t *testing.T) {
	t.Parallel()
	down, mute := func(m *memory) *bool { return &m.down }, func(m *memory) *bool { return &m.mute }
	for name, c := range map[string]struct {
		state  func(*memory) *bool
		outage time.Duration
		fails  bool
	}{
		"down, shorter": {down, 8 * time.Second, false},
		"down, longer":  {down, 12 * time.Second, true},
		"mute, shorter": {mute, 8 * time.Second, false},
		"mute, longer":  {mute, 12 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				result := played(t, m, func(ctx context.Context) {
					aWhile(ctx)
					m.set(c.state(m), true)
					pause(ctx, c.outage)
					m.set(c.state(m), false)
					aWhile(ctx)
				})
				if written := sum(result.Acks.Counts); written != result.Writes || uint64(len(result.Failures)) != result.Failed {
					t.Errorf("the time line has %d writes and %d failed ones, the account %d and %d", written, len(result.Failures), result.Writes, result.Failed)
				}
				if (result.Failed > 0) != c.fails || result.Retries == 0 || result.Unread == 0 || len(result.Problems) > 0 {
					t.Errorf("the account is %+v with problems %v", result.Account, result.Problems)
				}
				if result.Stall.Length < c.outage || result.Stall.Length > c.outage+time.Second {
					t.Errorf("the longest time without a write is %s, to be %s", result.Stall.Length, c.outage)
				}
			})
		})
	}
}

func sum(counts []uint32) (total uint64) {
	for _, count := range counts {
		total += uint64(count)
	}
	return total
}

func TestAKeyThatCannotBeReadAtTheEndIsAProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		result := played(t, m, func(ctx context.Context) {
			aWhile(ctx)
			m.set(&m.down, true)
			pause(ctx, time.Second)
		})
		if len(result.Problems) != result.Keys || result.Failed != Writers {
			t.Errorf("%d problems of %d keys, %d failed writes", len(result.Problems), result.Keys, result.Failed)
		}
	})
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
