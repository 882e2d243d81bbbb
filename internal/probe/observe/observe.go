package observe

import (
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe/reach"
)

const (
	// observeInterval is how often the nodes are looked at; it costs no request.
	observeInterval = 200 * time.Millisecond
	// evidenceInterval is how often each node is asked what it trusts.
	evidenceInterval = time.Second
	// askTimeout bounds one answer.
	askTimeout = 3 * time.Second
)

// Evidence is what a node says it has loaded.
type Evidence struct {
	// Trusts says by which anchors it accepts each kind of peer ("clients", "peers", "control"). They are
	// sorted names (AuthorityName), or the fingerprints of anchors whose certificate is not at hand.
	Trusts map[string][]string
	// Presents is the SHA-256 fingerprint of the leaf in lower-case hex.
	Presents string
	// Issuers are the names of the CAs that signed what it presents to kinds of peers for which no handshake
	// is made.
	Issuers map[string][]string
}

// EvidenceFunc asks a node what it has loaded.
type EvidenceFunc func(ctx context.Context, node reach.Node) (Evidence, error)

// State is a time in which nothing changed about a node.
type State struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Up says that the pod exists and has an address; Ready what Kubernetes says.
	Up    bool `json:"up"`
	Ready bool `json:"ready"`
	// Trusts, Presents and Issuers are empty while the node does not say.
	Trusts   map[string][]string `json:"trusts,omitempty"`
	Presents string              `json:"presents,omitempty"`
	Issuers  map[string][]string `json:"issuers,omitempty"`
}

func (s State) same(other State) bool {
	return s.Up == other.Up && s.Ready == other.Ready && s.Presents == other.Presents &&
		maps.EqualFunc(s.Trusts, other.Trusts, slices.Equal) && maps.EqualFunc(s.Issuers, other.Issuers, slices.Equal)
}

// Log is what was seen of one node.
type Log struct {
	Node string `json:"node"`
	// Restarts of its server since the probe began: new pods, new containers, and restarts within them.
	Restarts int     `json:"restarts"`
	States   []State `json:"states"`
}

// Observer records the nodes of a cluster over time.
type Observer struct {
	look     func() []reach.Node
	clock    clock.WithTicker
	evidence EvidenceFunc

	mu    sync.Mutex
	nodes map[string]*observed
}

// New has seen no node. It looks at nodes as last seen, ordered by name; without
// evidence, what they have loaded stays unknown.
func New(look func() []reach.Node, clock clock.WithTicker, evidence EvidenceFunc) *Observer {
	return &Observer{look: look, clock: clock, evidence: evidence, nodes: map[string]*observed{}}
}

type observed struct {
	log      Log
	uid      string
	restarts int32
	restart  string
	evidence Evidence
	asking   bool
}

// Run looks at the nodes until ctx ends, and returns when all answers are there.
func (o *Observer) Run(ctx context.Context) {
	ticker := o.clock.NewTicker(observeInterval)
	defer ticker.Stop()
	var asked time.Time
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		now := o.clock.Now()
		nodes := o.look()
		o.see(nodes, now)
		if o.evidence != nil && now.Sub(asked) >= evidenceInterval {
			asked = now
			for _, node := range nodes {
				if o.begin(node) {
					answers.Go(func() { o.ask(ctx, node) })
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// see takes one look at all nodes. A node that was seen before and is not
// there any more is down.
func (o *Observer) see(nodes []reach.Node, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	present := map[string]bool{}
	for _, node := range nodes {
		present[node.Name] = true
		seen, ok := o.nodes[node.Name]
		if !ok {
			seen = &observed{log: Log{Node: node.Name}, uid: node.UID, restarts: node.Restarts, restart: node.Restart}
			o.nodes[node.Name] = seen
		}
		seen.countRestart(node)
		state := State{From: now, To: now, Up: node.Address != "", Ready: node.Ready}
		state.Trusts, state.Presents, state.Issuers = seen.evidence.Trusts, seen.evidence.Presents, seen.evidence.Issuers
		seen.extend(state)
	}
	for name, seen := range o.nodes {
		if !present[name] {
			seen.evidence = Evidence{}
			seen.extend(State{From: now, To: now})
		}
	}
}

func (s *observed) countRestart(node reach.Node) {
	restarts := 0
	switch {
	case node.UID != s.uid:
		restarts = 1 + int(node.Restarts)
	case node.Restarts > s.restarts:
		restarts = int(node.Restarts - s.restarts)
	case node.Restart != s.restart:
		restarts = 1
	}
	if restarts > 0 {
		s.log.Restarts += restarts
		s.evidence = Evidence{}
	}
	s.uid, s.restarts, s.restart = node.UID, node.Restarts, node.Restart
}

func (s *observed) extend(state State) {
	last := len(s.log.States) - 1
	if last >= 0 {
		s.log.States[last].To = state.To
		if s.log.States[last].same(state) {
			return
		}
	}
	if len(s.log.States) < MaxSpans {
		s.log.States = append(s.log.States, state)
	}
}

func (o *Observer) begin(node reach.Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.nodes[node.Name]
	if seen.asking || node.Address == "" {
		return false
	}
	seen.asking = true
	return true
}

// ask keeps the answer for the next look. A node that gives none is one of which
// nothing is known: what it trusted before says nothing about now.
func (o *Observer) ask(ctx context.Context, node reach.Node) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	evidence, err := o.evidence(ctx, node)
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.nodes[node.Name]
	seen.asking = false
	if err != nil || seen.uid != node.UID {
		evidence = Evidence{}
	}
	seen.evidence = evidence
}

// Logs are copies, nodes by name.
func (o *Observer) Logs() []Log {
	o.mu.Lock()
	defer o.mu.Unlock()
	logs := make([]Log, 0, len(o.nodes))
	for _, seen := range o.nodes {
		clone := seen.log
		clone.States = append([]State(nil), seen.log.States...)
		logs = append(logs, clone)
	}
	sort.Slice(logs, func(i, j int) bool { return logs[i].Node < logs[j].Node })
	return logs
}
