package probe

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

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
// ends it. It returns what the node presented, if it knows. Package verdict
// judges its error.
type Attempt func(ctx context.Context, node reach.Node) (Presented, error)

// watcher runs one watch.
type watcher struct {
	listener   Listener
	attempt    Attempt
	network    Network
	clock      clock.WithTicker
	interval   time.Duration
	handshakes *handshakes

	mu   sync.Mutex
	busy map[string]bool
}

// run watches until ctx ends, and returns when the last check has.
func (w *watcher) run(ctx context.Context) {
	var checks sync.WaitGroup
	defer checks.Wait()
	ticker := w.clock.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		for _, node := range w.network.Nodes() {
			if w.listener.On(node) && w.begin(node.Name) {
				checks.Go(func() { w.check(ctx, node) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
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
	return func(ctx context.Context, node reach.Node) (Presented, error) {
		return i.check(ctx, network, net.JoinHostPort(node.Host, strconv.Itoa(int(i.Listener.Port))))
	}
}

func (w *watcher) check(ctx context.Context, node reach.Node) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	shown, err := w.attempt(bounded, node)
	if ctx.Err() == nil { // a check that was called off proves nothing
		w.handshakes.fresh(node.Name, w.clock.Now(), shown, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, node.Name)
}
