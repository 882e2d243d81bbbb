package contract

// ReasonFormatting is a reason of an agent.Readiness: the data directories are being formatted.
const ReasonFormatting = "FormattingStorage"

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
