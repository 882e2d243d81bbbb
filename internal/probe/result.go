package probe

import (
	"time"

	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// ClientState is the account of one client.
type ClientState struct {
	Kind     string         `json:"kind"`
	Listener string         `json:"listener"`
	Records  ledger.Account `json:"records"`
	// Overtaken were acknowledged and not read back although a later record of their
	// partition was.
	Overtaken uint64 `json:"overtaken,omitempty"`
	// TLSFailures counts by reason, over the connections it works with and the
	// fresh ones. A node that is down is none.
	TLSFailures map[verdict.Reason]uint64 `json:"tlsFailures"`
	// Failures lists the first of them.
	Failures []Failure `json:"failures,omitempty"`
	// Handshakes are its fresh connections, by node.
	Handshakes []observe.Watch `json:"handshakes"`
}

// Refusals is the number of its TLS failures.
func (c ClientState) Refusals() uint64 {
	var sum uint64
	for _, count := range c.TLSFailures {
		sum += count
	}
	return sum
}

// Fresh sums up its fresh connections over nodes and phases.
func (c ClientState) Fresh() observe.Tally { return observe.Sum(c.Handshakes) }

// WatchState is the record of one watch.
type WatchState struct {
	Name     string          `json:"name"`
	Listener string          `json:"listener"`
	Nodes    []observe.Watch `json:"nodes"`
}

// Fresh sums up its connections over nodes and phases.
func (w WatchState) Fresh() observe.Tally { return observe.Sum(w.Nodes) }

// Mark is the moment in which a phase began.
type Mark struct {
	At    time.Time `json:"at"`
	Phase string    `json:"phase"`
}

// Snapshot is the state of a probe at one moment.
type Snapshot struct {
	StartedAt time.Time     `json:"startedAt"`
	At        time.Time     `json:"at"`
	Phase     string        `json:"phase,omitempty"`
	Phases    []Mark        `json:"phases,omitempty"`
	Clients   []ClientState `json:"clients"`
	Watches   []WatchState  `json:"watches,omitempty"`
	Nodes     []observe.Log `json:"nodes"`
}

// Result is the account of a probe that has ended.
type Result struct {
	Snapshot

	// Complete says that every log was read to its end. Without it, Unread counts
	// records as lost that may be there: a probe that could not look does not
	// promise that nothing is missing.
	Complete bool `json:"complete"`
	// Notes say what a reader should know: what was not read, not cleaned up.
	Notes []string `json:"notes,omitempty"`
}

// Ok says that no client lost, failed or repeated a record, and that none was
// refused.
func (r Result) Ok() bool {
	if !r.Complete {
		return false
	}
	for _, client := range r.Clients {
		records := client.Records
		if records.Acknowledged == 0 || records.Unread+records.Failed+records.Duplicated+records.OutOfOrder > 0 {
			return false
		}
		if client.Refusals() > 0 {
			return false
		}
	}
	return true
}
