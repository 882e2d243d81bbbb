package probe

import (
	"maps"
	"sort"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/probe/verdict"
)

const (
	// maxSpans bounds the record of one watch on one node: beyond it, changes
	// are counted and no longer listed.
	maxSpans = 2000
	// maxFailures bounds the failures that are listed one by one.
	maxFailures = 500
	// resetsThatRefuse is how often in a row a node must break off a handshake
	// until that is a refusal: a server that stops breaks off one.
	resetsThatRefuse = 3
)

// Tally counts fresh connections by what they proved.
type Tally struct {
	Accepted    uint64 `json:"accepted"`
	Refused     uint64 `json:"refused"`
	Interrupted uint64 `json:"interrupted"`
	Unreachable uint64 `json:"unreachable"`
}

// With is the tally after one more connection.
func (t Tally) With(v verdict.Verdict) Tally {
	switch v {
	case verdict.Accepted:
		t.Accepted++
	case verdict.Refused:
		t.Refused++
	case verdict.Interrupted:
		t.Interrupted++
	case verdict.Unreachable:
		t.Unreachable++
	}
	return t
}

// Span is a time in which a watch saw the same of a node.
type Span struct {
	From    time.Time       `json:"from"`
	To      time.Time       `json:"to"`
	Verdict verdict.Verdict `json:"verdict"`
	Reason  verdict.Reason  `json:"reason,omitempty"`
	// Presented is what the node showed, where it showed anything.
	Presented Presented `json:"presented,omitzero"`
	Count     uint64    `json:"count"`
}

func (s Span) same(other Span) bool {
	return s.Verdict == other.Verdict && s.Reason == other.Reason && s.Presented == other.Presented
}

// NodeWatch is what one watch saw of one node.
type NodeWatch struct {
	Node string `json:"node"`
	// Phases counts the connections by phase.
	Phases map[string]Tally `json:"phases"`
	Spans  []Span           `json:"spans"`
	// Dropped changes were not listed, because there were too many.
	Dropped uint64 `json:"dropped,omitempty"`
}

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
	nodes    map[string]*NodeWatch
	resets   map[string]int
	reasons  map[verdict.Reason]uint64
	failures []Failure
}

func newHandshakes() *handshakes {
	return &handshakes{
		nodes: map[string]*NodeWatch{}, resets: map[string]int{}, reasons: map[verdict.Reason]uint64{},
	}
}

func (h *handshakes) setPhase(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = name
}

// fresh records the outcome of a fresh connection to a node.
func (h *handshakes) fresh(node string, now time.Time, shown Presented, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kind, reason := h.judge("fresh/"+node, err)
	watch, ok := h.nodes[node]
	if !ok {
		watch = &NodeWatch{Node: node, Phases: map[string]Tally{}}
		h.nodes[node] = watch
	}
	watch.Phases[h.phase] = watch.Phases[h.phase].With(kind)
	watch.extend(Span{From: now, To: now, Verdict: kind, Reason: reason, Presented: shown, Count: 1})
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

func (w *NodeWatch) extend(span Span) {
	last := len(w.Spans) - 1
	switch {
	case w.Dropped > 0: // a list with a hole is not continued
		w.Dropped++
	case last >= 0 && w.Spans[last].same(span):
		w.Spans[last].To = span.To
		w.Spans[last].Count++
	case len(w.Spans) < maxSpans:
		w.Spans = append(w.Spans, span)
	default:
		w.Dropped++
	}
}

// record is a copy of what was seen, nodes by name.
func (h *handshakes) record() (nodes []NodeWatch, reasons map[verdict.Reason]uint64, failures []Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watch := range h.nodes {
		clone := *watch
		clone.Phases = maps.Clone(watch.Phases)
		clone.Spans = append([]Span(nil), watch.Spans...)
		nodes = append(nodes, clone)
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Node < nodes[j].Node })
	return nodes, maps.Clone(h.reasons), append([]Failure(nil), h.failures...)
}
