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

// Readiness is the answer of GET /v1/ready: 204 without a body when the node is
// ready, otherwise 503 with this as JSON.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reason is one of the Reason constants.
	Reason string `json:"reason,omitempty"`
	// WaitingFor says in words, sorted, what is still missing. It holds names and
	// fingerprints only.
	WaitingFor []string `json:"waitingFor,omitempty"`
}

// Values of Readiness.Reason.
const (
	// ReasonWaitingForMounts: the server is not started, because what is mounted
	// is not yet what the pod pins.
	ReasonWaitingForMounts = "WaitingForMounts"
	// ReasonFormatting: the data directories are being formatted.
	ReasonFormatting = "FormattingStorage"
	// ReasonStarting: the server runs and is not yet serving.
	ReasonStarting = "ServerStarting"
	// ReasonUnresponsive: a server that was ready does not answer any more.
	ReasonUnresponsive = "ServerUnresponsive"
	// ReasonStopping: the server was asked to stop.
	ReasonStopping = "ServerStopping"
)

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
