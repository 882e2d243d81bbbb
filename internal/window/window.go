package window

import (
	"fmt"
	"slices"
	"time"
)

// InvalidError is the error for an expression that is none. It names the
// expression so that a person finds it in the list.
type InvalidError struct {
	Expression string
	Reason     string
}

// Error returns the expression and what is wrong with it.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("maintenance time window %q: %s", e.Expression, e.Reason)
}

// Windows is a list of maintenance windows. The zero value is an empty list,
// which is always open.
type Windows struct {
	schedules []Schedule
}

// Parse reads a list of expressions. The error is an *InvalidError that names the first one that cannot be
// read. The windows are then never open, because it is unknown when they should be.
func Parse(expressions []string) (Windows, error) {
	var w Windows
	for _, expression := range expressions {
		s, err := ParseSchedule(expression)
		if err != nil {
			return Windows{schedules: []Schedule{{}}}, err
		}
		w.schedules = append(w.schedules, s)
	}
	return w, nil
}

// Moment is what windows say of one moment. They are walked once for it, however often
// it is asked: that may take a while where there are many, or where none ever opens. The
// zero value is what an empty list says of any moment, save that it is open.
type Moment struct {
	now  time.Time
	open bool
	// closes is the first second from the moment on at which no window is open, and next
	// the first after that at which one is. Both are zero where there is none.
	closes, next time.Time
}

// At returns what the windows say of now.
func (w Windows) At(now time.Time) Moment {
	m := Moment{now: now, open: w.isOpen(now)}
	if closes, ok := w.closes(now); ok {
		m.closes = closes
		m.next, _ = w.next(closes)
	}
	return m
}

// Open tells whether the moment lies in any of the windows.
func (m Moment) Open() bool { return m.open }

// Opens returns the first second after the moment at which a window opens that is closed
// before it, and false when none opens up to the year 2199: there is none, or it stays open.
func (m Moment) Opens() (time.Time, bool) { return m.next, !m.next.IsZero() }

const (
	// enough is how long before something is due a window has to open for it to be done in
	// there: the nodes of a cluster are restarted one after the other.
	enough = time.Hour
	// early is how long before it is due something is done at most in a window that is
	// still open then.
	early = 24 * time.Hour
)

// IsLastBefore reports whether a window is open in which that has to be done which is due
// at the other moment: it does not stay open for ever, and none opens later that leaves time
// enough.
func (m Moment) IsLastBefore(due time.Time) bool {
	switch {
	case !m.open || m.closes.IsZero():
		return false
	case !m.closes.Before(due):
		return !m.now.Before(due.Add(-early))
	default:
		return m.next.IsZero() || m.next.After(due.Add(-enough))
	}
}

func (w Windows) isOpen(now time.Time) bool {
	return len(w.schedules) == 0 || slices.ContainsFunc(w.schedules, func(s Schedule) bool { return s.Matches(now) })
}

// maxJoints is how many windows may follow on each other without a second between them.
// Those of more are taken to stay open.
const maxJoints = 1000

// closes returns the first second from now on at which no window is open.
func (w Windows) closes(now time.Time) (time.Time, bool) {
	for range maxJoints {
		at := slices.IndexFunc(w.schedules, func(s Schedule) bool { return s.Matches(now) })
		if at < 0 {
			return now, len(w.schedules) > 0
		}
		end, ok := w.schedules[at].Ends(now)
		if !ok {
			return time.Time{}, false
		}
		now = end
	}
	return time.Time{}, false
}

// next returns the first second after now at which a window is open.
func (w Windows) next(now time.Time) (time.Time, bool) {
	var first time.Time
	for _, s := range w.schedules {
		if next, ok := s.Next(now); ok && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first, !first.IsZero()
}
