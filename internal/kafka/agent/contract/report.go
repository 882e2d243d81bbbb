package contract

import "time"

// TLSReport is the answer of GET /v1/tls: what the running server has loaded,
// as opposed to what is mounted or wished for.
type TLSReport struct {
	// Revision is the publication the server was started on; 0 before the start.
	Revision int64 `json:"revision"`
	// StartedAt is when the server process was started.
	StartedAt time.Time `json:"startedAt"`
	// Roles holds one entry per TLS listener, and AgentRole.
	Roles map[Listener]RoleReport `json:"roles"`
}

// RoleReport is what one role trusts and presents. Fingerprints are the SHA-256
// of the DER in lower-case hex, sorted.
type RoleReport struct {
	Trusts   []string `json:"trusts"`
	Presents string   `json:"presents"`
	// NotAfter is the earliest end of anything the role presents.
	NotAfter time.Time `json:"notAfter"`
}

// BrokerState is the answer of GET /v1/broker-state. The numbers are those of
// Kafka's BrokerState metric.
type BrokerState struct {
	State int `json:"brokerState"`
}

// Values of BrokerState.State (Kafka's org.apache.kafka.metadata.BrokerState).
const (
	StateNotRunning     = 0
	StateStarting       = 1
	StateRecovery       = 2
	StateRunning        = 3
	StateControlledStop = 6
	StateShuttingDown   = 7
	StateUnknown        = 127
)
