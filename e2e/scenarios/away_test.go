package scenarios

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/probe/observe"
)

func TestNodesThatWereAwayTogetherAreFound(t *testing.T) {
	begun := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	log := func(states ...observe.State) observe.Log {
		for i := range states {
			states[i].From, states[i].To = begun.Add(time.Duration(i)*time.Second), begun.Add(time.Duration(i+1)*time.Second)
		}
		return observe.Log{States: states}
	}
	ready, gone, starting, slow := observe.State{Up: true, Ready: true}, observe.State{}, observe.State{Up: true}, observe.State{Up: true}
	for name, c := range map[string]struct {
		one, two observe.Log
		together bool
	}{
		"one after the other":               {log(ready, gone, starting, ready, ready), log(ready, ready, ready, gone, starting), false},
		"one while the other starts":        {log(ready, gone, starting, ready), log(ready, ready, gone, ready), true},
		"both when they are new":            {log(gone, starting, ready, ready), log(gone, gone, starting, ready), false},
		"one that is not ready for a while": {log(ready, gone, starting, ready), log(ready, slow, slow, ready), false},
	} {
		t.Run(name, func(t *testing.T) {
			if at := awayTogether(c.one, c.two); at.IsZero() == c.together {
				t.Errorf("away together at %s, want %t", at, c.together)
			}
		})
	}
}
