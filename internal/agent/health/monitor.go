package health

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Monitor asks again and again.
type Monitor struct {
	Clock clock.Clock
	// Check asks once.
	Check func(ctx context.Context) error
	// Hints make it ask at once; they are optional.
	Hints <-chan struct{}
	// Eager and Calm are the pauses while the server does not serve and while it
	// does.
	Eager, Calm time.Duration
}

// Run reports every answer until the context ends. A server that served is asked
// a second time before it is reported: the first question may have found the
// kept connection closed for being idle.
func (m Monitor) Run(ctx context.Context, report func(error)) {
	serving := false
	for ctx.Err() == nil {
		err := m.Check(ctx)
		if err != nil && serving {
			err = m.Check(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		report(err)
		serving = err == nil
		m.pause(ctx, serving)
	}
}

func (m Monitor) pause(ctx context.Context, serving bool) {
	length := m.Eager
	if serving {
		length = m.Calm
	}
	timer := m.Clock.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-m.Hints:
	case <-timer.C():
	}
}
