package probe

import (
	"maps"
	"sort"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

const (
	// maxFailures bounds the failures that are listed one by one.
	maxFailures = 500
	// resetsThatRefuse is how often in a row a node must break off a handshake
	// until that is a refusal: a server that stops breaks off one.
	resetsThatRefuse = 3
)

// Failure is one TLS failure of a client: of a connection it works with, or of a
// fresh one.
type Failure struct {
	At     time.Time      `json:"at"`
	Node   string         `json:"node"`
	Phase  string         `json:"phase,omitempty"`
	Reason verdict.Reason `json:"reason"`
}

// handshakes is the record of one kind of client or of one watch. It is safe for
// concurrent use.
type handshakes struct {
	mu       sync.Mutex
	phase    string
	nodes    map[string]*observe.Watch
	resets   map[string]int
	reasons  map[verdict.Reason]uint64
	failures []Failure
}

func newHandshakes() *handshakes {
	return &handshakes{
		nodes: map[string]*observe.Watch{}, resets: map[string]int{}, reasons: map[verdict.Reason]uint64{},
	}
}

func (h *handshakes) setPhase(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = name
}

// fresh records the outcome of a fresh connection to a node.
func (h *handshakes) fresh(node string, now time.Time, shown observe.Presented, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kind, reason := h.judge("fresh/"+node, err)
	watch, ok := h.nodes[node]
	if !ok {
		watch = &observe.Watch{Node: node, Phases: map[string]observe.Tally{}}
		h.nodes[node] = watch
	}
	watch.Add(h.phase, observe.Span{From: now, To: now, Verdict: kind, Reason: reason, Presented: shown, Count: 1})
	if kind == verdict.Refused {
		h.fail(node, now, reason)
	}
}

// data records the outcome of a connection that the client works with.
func (h *handshakes) data(node string, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kind, reason := h.judge("data/"+node, err); kind == verdict.Refused {
		h.fail(node, now, reason)
	}
}

// judge turns repeated interruptions into a refusal.
func (h *handshakes) judge(stream string, err error) (verdict.Verdict, verdict.Reason) {
	kind, reason := verdict.Of(err)
	if kind != verdict.Interrupted {
		h.resets[stream] = 0
		return kind, reason
	}
	h.resets[stream]++
	if h.resets[stream] >= resetsThatRefuse {
		return verdict.Refused, reason
	}
	return kind, reason
}

func (h *handshakes) fail(node string, now time.Time, reason verdict.Reason) {
	h.reasons[reason]++
	if len(h.failures) < maxFailures {
		h.failures = append(h.failures, Failure{At: now, Node: node, Phase: h.phase, Reason: reason})
	}
}

// record is a copy of what was seen, nodes by name.
func (h *handshakes) record() (watches []observe.Watch, reasons map[verdict.Reason]uint64, failures []Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watch := range h.nodes {
		clone := *watch
		clone.Phases = maps.Clone(watch.Phases)
		clone.Spans = append([]observe.Span(nil), watch.Spans...)
		watches = append(watches, clone)
	}
	sort.Slice(watches, func(i, j int) bool { return watches[i].Node < watches[j].Node })
	return watches, maps.Clone(h.reasons), append([]Failure(nil), h.failures...)
}
