package probe

import (
	"context"
	"math"
	"time"

	"k8s.io/utils/clock"
)

// offset is when in an interval the nth of many begins, so that they do not all do
// the same at the same moment: a burst of handshakes by clients that know nothing of
// each other is a load that no cluster has, and what it delays is not the cluster's
// fault. Multiples of the golden ratio lie far apart however many there are.
func offset(n int, interval time.Duration) time.Duration {
	_, part := math.Modf(float64(n) / math.Phi)
	return time.Duration(part * float64(interval))
}

// pass waits for so long. It returns false when ctx ended before.
func pass(ctx context.Context, clk clock.Clock, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-clk.After(wait):
		return true
	}
}
