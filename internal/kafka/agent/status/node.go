package status

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/agent/status"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Node is the state of one node. The zero value is a node whose server is not
// started. It is safe for concurrent use.
type Node struct {
	status.Node

	mu    sync.Mutex
	state int
}

func (n *Node) enter(state int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = state
}

// Started records what the server was started with.
func (n *Node) Started(revision int64, at time.Time, roles map[publication.Role]publication.RoleReport) {
	n.Node.Started(revision, at, roles)
	n.enter(contract.StateStarting)
}

// Recovering records that the server works through its logs before it serves.
func (n *Node) Recovering() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == contract.StateStarting {
		n.state = contract.StateRecovery
	}
}

// Serving records that the server serves, and reports whether that is news.
func (n *Node) Serving() bool {
	news := n.Node.Serving()
	if news {
		n.enter(contract.StateRunning)
	}
	return news
}

// Stopping records that the server was asked to stop. It is not ready from now
// on, whatever it still answers.
func (n *Node) Stopping() {
	n.Node.Stopping()
	n.enter(contract.StateControlledStop)
}

// Ended records that there is no server any more: nothing is loaded.
func (n *Node) Ended() {
	n.Node.Ended()
	n.enter(contract.StateNotRunning)
}

// BrokerState returns the server's state in Kafka's numbers.
func (n *Node) BrokerState() contract.BrokerState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return contract.BrokerState{State: n.state}
}
