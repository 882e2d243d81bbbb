package kube

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// ServerClock knows what time it is for the API server, from the Date of its answers. It sends no
// requests: a process that holds a Lease or watches has answers enough.
type ServerClock struct {
	local  clock.PassiveClock
	latest atomic.Pointer[reading]
}

// reading is a time of the server's and when it came.
type reading struct {
	server, local time.Time
}

// NewServerClock returns one that compares with local.
func NewServerClock(local clock.PassiveClock) *ServerClock { return &ServerClock{local: local} }

// Transport passes requests on and reads the clock from their answers.
func (c *ServerClock) Transport(next http.RoundTripper) http.RoundTripper {
	return dated{clock: c, next: next}
}

// Ahead returns how much the local clock is ahead of the API server's, to about a second
// and the time that an answer takes; 0 before the first answer. What has passed since the
// last answer is measured apart from the local wall clock, so that a clock that is set
// is noticed at once.
func (c *ServerClock) Ahead() time.Duration {
	latest := c.latest.Load()
	if latest == nil {
		return 0
	}
	server := latest.server.Add(c.local.Since(latest.local))
	return c.local.Now().Round(0).Sub(server)
}

type dated struct {
	clock *ServerClock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper. An answer without a readable Date tells nothing.
func (d dated) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if server, bad := http.ParseTime(response.Header.Get("Date")); bad == nil {
		d.clock.latest.Store(&reading{server: server, local: d.clock.local.Now()})
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport below, to close its connections.
func (d dated) WrappedRoundTripper() http.RoundTripper { return d.next }
