package watches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// patience is how long a watch is denied before that counts: rights are granted one after the other.
	patience = time.Minute
	// forgotten is how long a denial counts: a cache asks again within a minute unless it has ended.
	forgotten = 3 * time.Minute
	// interval is how soon Follow notices a change.
	interval = 5 * time.Second
)

// Observer knows from the answers to a process which of its watches are denied. A nil Observer knows of none.
type Observer struct {
	clock clock.WithTicker
	// optional are API groups that need not exist.
	optional []string
	figure   *prometheus.Desc

	mu     sync.Mutex
	denied map[scope]*denied
}

// denied is a DeniedError and when the API server has answered last.
type denied struct {
	DeniedError

	seen time.Time
}

// NewObserver returns an Observer that has seen no request. Optional API groups need not exist.
func NewObserver(clock clock.WithTicker, optional ...string) *Observer {
	return &Observer{
		clock: clock, optional: optional, denied: map[scope]*denied{},
		figure: prometheus.NewDesc("keyturn_watch_denied", "1 for each watch of the process that the API server has denied for more than a minute.",
			[]string{"resource", "watched_namespace", "code"}, nil),
	}
}

// Transport passes requests on and reads the answers to those of caches.
func (o *Observer) Transport(next http.RoundTripper) http.RoundTripper {
	return observed{observer: o, next: next}
}

type observed struct {
	observer *Observer
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t observed) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if of, verb := scopeOf(request); err == nil && verb != "" {
		t.observer.answered(of, verb, response.StatusCode)
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below, to close its connections.
func (t observed) WrappedRoundTripper() http.RoundTripper { return t.next }

// answered notes an answer. One that is neither a success nor a denial, such as 500, changes nothing: an API server
// that is overloaded or restarts takes no rights away.
func (o *Observer) answered(of scope, verb string, code int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, known := o.clock.Now(), o.denied[of]
	switch {
	case code == http.StatusOK:
		// A list that is followed by a denied watch is no success.
		if known != nil && (verb == watch || known.Verb == list) {
			delete(o.denied, of)
		}
	case code == http.StatusUnauthorized, code == http.StatusForbidden,
		code == http.StatusNotFound && !slices.Contains(o.optional, of.resource.Group):
		if known == nil || now.Sub(known.seen) > forgotten {
			known = &denied{DeniedError: DeniedError{Resource: of.resource, Namespace: of.namespace, Verb: verb, Since: now}}
			o.denied[of] = known
		}
		known.Code, known.seen = code, now
		if verb == list { // which is asked for first, or after a watch that was denied
			known.Verb = list
		}
	}
}

// Denials are the watches that the API server has denied for more than a minute, one for each resource and namespace.
func (o *Observer) Denials() []*DeniedError {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	maps.DeleteFunc(o.denied, func(_ scope, d *denied) bool { return now.Sub(d.seen) > forgotten })
	var denials []*DeniedError
	for _, d := range o.denied {
		if d.seen.Sub(d.Since) >= patience {
			denials = append(denials, new(d.DeniedError))
		}
	}
	slices.SortFunc(denials, func(a, b *DeniedError) int {
		return cmp.Or(cmp.Compare(a.Resource.String(), b.Resource.String()), cmp.Compare(a.Namespace, b.Namespace), a.Since.Compare(b.Since))
	})
	return slices.CompactFunc(denials, func(a, b *DeniedError) bool { return a.Resource == b.Resource && a.Namespace == b.Namespace })
}

// Ready is a check of /readyz: it fails while a watch is denied.
func (o *Observer) Ready(*http.Request) error { return o.joined() }

func (o *Observer) joined() error {
	denials := o.Denials()
	failed := make([]error, 0, len(denials))
	for _, d := range denials {
		failed = append(failed, d)
	}
	return errors.Join(failed...)
}

// Explain adds to the error of a process that could not fill its caches which watches are denied.
func (o *Observer) Explain(err error) error {
	if denied := o.joined(); err != nil && denied != nil {
		return fmt.Errorf("%w\n%w", denied, err)
	}
	return err
}

// Follow tells of the denials whenever a watch is denied or no longer denied, until the context ends.
func (o *Observer) Follow(ctx context.Context, tell func(denials []*DeniedError)) {
	if o == nil {
		return
	}
	ticker := o.clock.NewTicker(interval)
	defer ticker.Stop()
	last := map[DeniedError]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		denials, now := o.Denials(), map[DeniedError]bool{}
		for _, d := range denials {
			now[DeniedError{Resource: d.Resource, Namespace: d.Namespace, Code: d.Code}] = true
		}
		if !maps.Equal(last, now) {
			tell(denials)
		}
		last = now
	}
}

// Describe implements prometheus.Collector.
func (o *Observer) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- o.figure }

// Collect implements prometheus.Collector.
func (o *Observer) Collect(figures chan<- prometheus.Metric) {
	for _, d := range o.Denials() {
		figures <- prometheus.MustNewConstMetric(o.figure, prometheus.GaugeValue, 1, d.Resource.String(), d.Namespace, strconv.Itoa(d.Code))
	}
}
