package probe

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// Watch opens a fresh connection to every node of a listener each second and
// records who is accepted. Whether a refusal is wrong is for the one who watches
// to say: a watch with an old authority is meant to be refused in the end.
type Watch struct {
	Identity

	// Name tells the watches of a probe apart.
	Name string
	// By makes the connections in the probe's place, for example with another
	// program; nil leaves them to the probe.
	By Attempt
}

// Attempt opens one fresh connection to a node, completes a request on it, and
// ends it, all within a time of its own: a node is not tried again before. It returns
// what the node presented, if it knows. Package verdict judges its error.
type Attempt func(ctx context.Context, node reach.Node) (observe.Presented, error)

// watcher runs one watch.
type watcher struct {
	listener Listener
	attempt  Attempt
	network  Network
	clock    clock.WithTicker
	interval time.Duration
	// offset lies between the first checks and the beat of all others.
	offset     time.Duration
	handshakes *handshakes

	mu   sync.Mutex
	busy map[string]bool
}

// run watches until ctx ends, and returns when the last check has. The first checks
// are made at once, the others each at its own moment of the interval.
func (w *watcher) run(ctx context.Context) {
	var checks sync.WaitGroup
	defer checks.Wait()
	w.round(ctx, &checks, 0)
	if !pass(ctx, w.clock, w.offset) {
		return
	}
	ticker := w.clock.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		w.round(ctx, &checks, w.interval)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// round checks each node once, the checks spread over a time.
func (w *watcher) round(ctx context.Context, checks *sync.WaitGroup, over time.Duration) {
	nodes := w.nodes()
	for i, node := range nodes {
		if !w.begin(node.Name) {
			continue
		}
		wait := over * time.Duration(i) / time.Duration(len(nodes))
		checks.Go(func() {
			defer w.end(node.Name)
			if pass(ctx, w.clock, wait) {
				w.check(ctx, node.Name)
			}
		})
	}
}

// nodes are those that have the listener now.
func (w *watcher) nodes() []reach.Node {
	return slices.DeleteFunc(slices.Clone(w.network.Nodes()), func(n reach.Node) bool { return !w.listener.On(n) })
}

// begin claims a node; a check that still waits for an answer is not overtaken.
func (w *watcher) begin(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[node] {
		return false
	}
	w.busy[node] = true
	return true
}

// attempts are the probe's own, as an identity.
func (i Identity) attempts(network Network) Attempt {
	return func(ctx context.Context, node reach.Node) (observe.Presented, error) {
		return i.Check(ctx, network, net.JoinHostPort(node.Host, strconv.Itoa(int(i.Listener.Port))))
	}
}

// check connects to the node, wherever it is by now.
func (w *watcher) check(ctx context.Context, name string) {
	nodes := w.nodes()
	i := slices.IndexFunc(nodes, func(n reach.Node) bool { return n.Name == name })
	if i < 0 {
		return
	}
	shown, err := w.attempt(ctx, nodes[i])
	if ctx.Err() == nil { // a check that was called off proves nothing
		w.handshakes.fresh(name, w.clock.Now(), shown, err)
	}
}

func (w *watcher) end(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, node)
}
