package ledger

import "time"

// Gap is a time without a single acknowledgement.
type Gap struct {
	// From is when the acknowledgement before the gap arrived.
	From time.Time `json:"from"`
	// Length is how long the next one took.
	Length time.Duration `json:"length"`
}

// Longer returns the longer of two gaps; of equally long ones the first.
func (g Gap) Longer(other Gap) Gap {
	if other.Length > g.Length {
		return other
	}
	return g
}

// gauge measures gaps between events.
type gauge struct {
	last    time.Time
	longest Gap
}

// tick records an event and returns the gap that it ended.
func (g *gauge) tick(now time.Time) Gap {
	if g.last.IsZero() {
		g.last = now
		return Gap{From: now}
	}
	gap := Gap{From: g.last, Length: now.Sub(g.last)}
	g.longest = g.longest.Longer(gap)
	if now.After(g.last) {
		g.last = now
	}
	return gap
}

// open is the gap that has not ended yet.
func (g *gauge) open(now time.Time) Gap {
	if g.last.IsZero() {
		return Gap{}
	}
	return Gap{From: g.last, Length: now.Sub(g.last)}
}
