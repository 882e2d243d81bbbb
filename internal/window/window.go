package window

import (
	"fmt"
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

// Parse reads a list of expressions. The error is an *InvalidError that names the
// first one that cannot be read; the windows are then never open, since nobody
// has said when they are.
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

// Open tells whether now lies in any of the windows.
func (w Windows) Open(now time.Time) bool {
	if len(w.schedules) == 0 {
		return true
	}
	for _, s := range w.schedules {
		if s.Matches(now) {
			return true
		}
	}
	return false
}

// Next returns the first second at or after now at which a window is open, and
// false when none opens up to the year 2199.
func (w Windows) Next(now time.Time) (time.Time, bool) {
	if w.Open(now) {
		return now, true
	}
	var first time.Time
	for _, s := range w.schedules {
		if next, ok := s.Next(now); ok && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first, !first.IsZero()
}
