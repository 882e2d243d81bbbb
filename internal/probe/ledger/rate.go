package ledger

import "time"

// BucketWidth is the resolution of a time line at its start.
const BucketWidth = 100 * time.Millisecond

// maxBuckets bounds a time line: beyond it the resolution is halved. Two hours
// keep the full one.
const maxBuckets = 72_000

// Rate counts events per bucket of time.
type Rate struct {
	Start  time.Time     `json:"start"`
	Width  time.Duration `json:"width"`
	Counts []uint32      `json:"counts"`
}

// NewRate begins at a time.
func NewRate(start time.Time) Rate { return Rate{Start: start, Width: BucketWidth} }

// Add counts one event; one before the start counts into the first bucket.
func (r *Rate) Add(now time.Time) {
	index := max(0, int(now.Sub(r.Start)/r.Width))
	for index >= maxBuckets {
		r.coarsen()
		index = int(now.Sub(r.Start) / r.Width)
	}
	for len(r.Counts) <= index {
		r.Counts = append(r.Counts, 0)
	}
	r.Counts[index]++
}

func (r *Rate) coarsen() {
	half := make([]uint32, (len(r.Counts)+1)/2)
	for i, count := range r.Counts {
		half[i/2] += count
	}
	r.Counts, r.Width = half, r.Width*2
}

func (r *Rate) clone() Rate {
	return Rate{Start: r.Start, Width: r.Width, Counts: append([]uint32(nil), r.Counts...)}
}
