package picture

import (
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/report/timeline"
)

// axis maps time to the width of the plot.
type axis struct {
	start       time.Time
	length      time.Duration
	left, width float64
}

func newAxis(t timeline.Timeline, left, width float64) axis {
	return axis{start: t.Start, length: max(t.End.Sub(t.Start), time.Second), left: left, width: width}
}

// x is the place of a moment; what is outside of the picture is at its edge.
func (a axis) x(at time.Time) float64 {
	share := float64(at.Sub(a.start)) / float64(a.length)
	return a.left + a.width*min(max(share, 0), 1)
}

// ticks are moments at a distance that people count in, at most a dozen.
func (a axis) ticks() []time.Duration {
	const most = 12
	step := a.length
	for _, candidate := range steps() {
		if a.length/candidate <= most {
			step = candidate
			break
		}
	}
	var ticks []time.Duration
	for at := time.Duration(0); at <= a.length; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

func steps() []time.Duration {
	return []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour,
	}
}

// elapsed writes a tick as minutes and seconds, or with hours where there are any.
func elapsed(d time.Duration) string {
	hours, minutes, seconds := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if hours > 0 {
		return fmt.Sprintf("%d:%02d:%02d", hours, minutes, seconds)
	}
	return fmt.Sprintf("%d:%02d", minutes, seconds)
}
