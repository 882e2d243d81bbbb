package harness

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Journal tells a person what is being done and how long it took.
type Journal struct {
	out     io.Writer
	started time.Time
	mu      sync.Mutex
}

// NewJournal writes to out; times count from now.
func NewJournal(out io.Writer) *Journal { return &Journal{out: out, started: time.Now()} }

// Say writes one line with the time since the start.
func (j *Journal) Say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "%6.1f s  %s\n", time.Since(j.started).Seconds(), fmt.Sprintf(format, args...))
}

// Step does something and says how long it took.
func (j *Journal) Step(what string, do func() error) error {
	begun := time.Now()
	if err := do(); err != nil {
		j.Say("%s: failed after %.1f s", what, time.Since(begun).Seconds())
		return fmt.Errorf("%s: %w", what, err)
	}
	j.Say("%s (%.1f s)", what, time.Since(begun).Seconds())
	return nil
}
