package client

import (
	"context"

	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
)

// Client asks the agents of Kafka nodes. It is safe for concurrent use.
type Client struct{ *client.Client }

// New makes a client.
func New(options client.Options) Client { return Client{client.New(options)} }

// BrokerState asks for the state of the node's Kafka. Its errors are those of an agent's client.
func (c Client) BrokerState(ctx context.Context, node client.Node) (contract.BrokerState, error) {
	var state contract.BrokerState
	err := c.State(ctx, node, contract.BrokerStatePath, &state)
	return state, err
}
