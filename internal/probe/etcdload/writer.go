package etcdload

import (
	"context"
	"fmt"
)

// chapter is how often a writer writes one key before it takes the next: the check of a
// history takes memory by the square of its length.
const chapter = 500

// writer writes keys that no other client writes. It repeats a write until it knows the
// outcome: each attempt is for the revision that it knows, so that one of them succeeds.
type writer struct {
	load  *Load
	store Store
	id    int

	written int
	// last is the revision of the key, as far as it is known.
	last int64
}

// write does one logical write.
func (w *writer) write(ctx context.Context) {
	if w.written%chapter == 0 {
		w.last = 0
		w.load.turn(w.id, w.written/chapter)
	}
	w.written++
	key, value := w.load.key(w.id), fmt.Sprintf("%d.%d", w.id, w.written)
	begun, since := w.load.history.Now(), w.load.options.Clock.Now()
	for !w.attempt(ctx, key, value) {
		if w.load.options.Clock.Since(since) > w.load.options.Deadline || ctx.Err() != nil {
			w.load.history.MayHaveWritten(w.id, key, value, begun)
			w.load.account.failed(w.load.options.Clock.Now())
			return
		}
		w.load.account.retried()
		w.load.pause(ctx)
	}
	w.load.history.Wrote(w.id, key, value, begun)
	w.load.account.wrote(since, w.load.options.Clock.Now())
}

// attempt reports whether the value is known to be written.
func (w *writer) attempt(ctx context.Context, key, value string) bool {
	ctx, cancel := context.WithTimeout(ctx, w.load.options.Attempt)
	defer cancel()
	begun := w.load.history.Now()
	found, err := w.store.Swap(ctx, key, value, w.last)
	if err != nil {
		return false
	}
	if w.last = found.Revision; found.Value != value {
		w.load.history.Read(w.id, key, found.Value, begun)
	}
	return found.Value == value
}

// reader reads the keys of all writers in turn.
type reader struct {
	load  *Load
	store Store
	id    int
	next  int
}

func (r *reader) read(ctx context.Context) {
	key := r.load.key(r.next % Writers)
	r.next++
	if err := r.load.look(ctx, r.store, r.id, key); err != nil {
		r.load.account.unread()
	}
}
