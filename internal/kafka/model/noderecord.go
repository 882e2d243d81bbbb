package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// NodesAnnotation records, on the StrimziPodSet of a pool, which nodes the pool
// has, whether they can be described yet or not.
const NodesAnnotation = "keyturn.dev/nodes"

// ErrRecordedNodes is wrapped by every error about a record of nodes that cannot
// be read.
var ErrRecordedNodes = errors.New("not a record of nodes")

// RecordedNodes is what NodesAnnotation says.
type RecordedNodes struct {
	// IDs are sorted.
	IDs []NodeID
	// Roles are those of every node.
	Roles Roles
}

// recordedNodes is the stored form.
type recordedNodes struct {
	IDs   []NodeID              `json:"ids"`
	Roles []kafkav1.ProcessRole `json:"roles"`
}

// Encode renders the record for NodesAnnotation.
func (n RecordedNodes) Encode() (string, error) {
	stored := recordedNodes{IDs: append([]NodeID{}, n.IDs...), Roles: []kafkav1.ProcessRole{}}
	for _, role := range n.Roles.List() {
		stored.Roles = append(stored.Roles, kafkav1.ProcessRole(role))
	}
	data, err := json.Marshal(stored)
	if err != nil {
		return "", fmt.Errorf("encoding the nodes of a pool: %w", err)
	}
	return string(data), nil
}

// ParseRecordedNodes reads the value of NodesAnnotation.
func ParseRecordedNodes(text string) (RecordedNodes, error) {
	var stored recordedNodes
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return RecordedNodes{}, fmt.Errorf("%w: %w", ErrRecordedNodes, err)
	}
	if len(stored.IDs) > MaxNodes {
		return RecordedNodes{}, fmt.Errorf("%w: %d node ids are more than the %d that a cluster may have", ErrRecordedNodes, len(stored.IDs), MaxNodes)
	}
	for _, id := range stored.IDs {
		if id < 0 {
			return RecordedNodes{}, fmt.Errorf("%w: %s is no node id", ErrRecordedNodes, id)
		}
	}
	return RecordedNodes{IDs: slices.Compact(sortedIDs(stored.IDs)), Roles: RolesOf(stored.Roles)}, nil
}
