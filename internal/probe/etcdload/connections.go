package etcdload

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// Refusal is a connection that one side refused.
type Refusal struct {
	At       time.Time
	Who      string
	Endpoint string
	Phase    string
	Reason   verdict.Reason
}

// connections counts connections by who opened them, to which endpoint, and in which phase.
type connections struct {
	mu       sync.Mutex
	phase    string
	marks    []timeline.Mark
	counts   map[report.Handshakes]report.Handshakes
	fresh    map[string]*observe.Watch
	refusals []Refusal
	resets   map[string]resets
}

// resets are the handshakes that a member has broken off in a row, those at the same time counted once.
type resets struct {
	times int
	last  time.Time
}

func newConnections() *connections {
	return &connections{counts: map[report.Handshakes]report.Handshakes{}, fresh: map[string]*observe.Watch{}, resets: map[string]resets{}}
}

func (c *connections) setPhase(now time.Time, phase string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = phase
	c.marks = append(c.marks, timeline.Mark{At: now, Text: phase})
}

const (
	// resetsThatRefuse is how often in a row a member must break off a handshake until that
	// is a refusal: a member that stops breaks off one of each client.
	resetsThatRefuse = 3
	// atOnce is how long a member takes to break them off that stops.
	atOnce = time.Second
)

// opened records a fresh connection and what the member presented.
func (c *connections) opened(now time.Time, endpoint string, shown observe.Presented, err error) {
	kind, reason := c.note(now, Fresh, endpoint, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	watch, seen := c.fresh[endpoint]
	if !seen {
		member, _, _ := strings.Cut(endpoint, ".")
		watch = &observe.Watch{Node: member, Phases: map[string]observe.Tally{}}
		c.fresh[endpoint] = watch
	}
	watch.Add(c.phase, observe.Span{From: now, To: now, Verdict: kind, Reason: reason, Presented: shown, Count: 1})
}

// note counts a connection, nil being one over which the member answered, and says what it proved.
func (c *connections) note(now time.Time, who, endpoint string, err error) (verdict.Verdict, verdict.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := report.Handshakes{Who: who, Node: endpoint, Phase: c.phase}
	count := cmp.Or(c.counts[key], key)
	kind, reason := verdict.Of(err)
	inARow := c.resets[who+endpoint]
	switch {
	case kind != verdict.Interrupted:
		inARow = resets{}
	case now.Sub(inARow.last) >= atOnce:
		inARow = resets{inARow.times + 1, now}
	}
	c.resets[who+endpoint] = inARow
	if inARow.times >= resetsThatRefuse {
		kind = verdict.Refused
	}
	switch kind {
	case verdict.Accepted:
		count.Accepted++
	case verdict.Refused:
		count.Refused++
		c.refusals = append(c.refusals, Refusal{At: now, Who: who, Endpoint: endpoint, Phase: c.phase, Reason: reason})
	case verdict.Interrupted:
		count.Interrupted++
	case verdict.Unreachable:
		count.Unreachable++
	}
	c.counts[key] = count
	return kind, reason
}

// overTime are the fresh connections by member, sorted, and when phases began.
func (c *connections) overTime() (watches []observe.Watch, marks []timeline.Mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, endpoint := range slices.Sorted(maps.Keys(c.fresh)) {
		watches = append(watches, *c.fresh[endpoint])
	}
	return watches, slices.Clone(c.marks)
}

// record is what was counted, in a stable order.
func (c *connections) record() ([]report.Handshakes, []Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make([]report.Handshakes, 0, len(c.counts))
	for _, count := range c.counts {
		counts = append(counts, count)
	}
	slices.SortFunc(counts, func(a, b report.Handshakes) int {
		return cmp.Or(cmp.Compare(a.Who, b.Who), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Phase, b.Phase))
	})
	return counts, slices.Clone(c.refusals)
}

// counted are the credentials of a client whose connections are counted: in TLS 1.3 it
// learns only with the first answer whether the member accepts it.
type counted struct {
	credentials.TransportCredentials

	note func(endpoint string, err error)
}

// Clone implements credentials.TransportCredentials.
func (c counted) Clone() credentials.TransportCredentials {
	return counted{c.TransportCredentials.Clone(), c.note}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c counted) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		c.note(authority, err)
		return nil, nil, err
	}
	return &answered{Conn: secure, note: func(err error) { c.note(authority, err) }}, info, nil
}

// answered is a connection that notes its first answer.
type answered struct {
	net.Conn

	once sync.Once
	note func(error)
}

// Read implements net.Conn.
func (a *answered) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.once.Do(func() {
		if n > 0 {
			a.note(nil)
		} else {
			a.note(err)
		}
	})
	return n, err
}

// preface is how a client opens an HTTP/2 connection: the server answers it only when it
// has accepted the client's certificate.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// connect opens a fresh connection, waits for the first answer, and returns what the member presented.
func connect(ctx context.Context, options Options, endpoint string) (shown observe.Presented, err error) {
	raw, err := options.Dial(ctx, endpoint)
	if err != nil {
		return shown, err
	}
	defer func() { _ = raw.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(deadline); err != nil {
			return shown, fmt.Errorf("limiting a connection to %s: %w", endpoint, err)
		}
	}
	config := options.TLS.Clone()
	config.NextProtos = []string{"h2"}
	if config.ServerName, _, err = net.SplitHostPort(endpoint); err != nil {
		return shown, fmt.Errorf("reading endpoint %s: %w", endpoint, err)
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		// A client that verifies by itself has the certificates that it did not accept.
		return cmp.Or(observe.PresentedBy(secure), observe.PresentedIn(err)), fmt.Errorf("connecting to %s: %w", endpoint, err)
	}
	shown = observe.PresentedBy(secure)
	if _, err := io.WriteString(secure, preface); err != nil {
		return shown, fmt.Errorf("asking %s: %w", endpoint, err)
	}
	if _, err := io.ReadFull(secure, make([]byte, 1)); err != nil {
		return shown, fmt.Errorf("waiting for an answer of %s: %w", endpoint, err)
	}
	return shown, nil
}
