package agent

import "github.com/keyturn/keyturn/internal/excerpt"

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

// Excerpt is the readiness with at most excerpt.Foreign bytes of each text in it.
func (r Readiness) Excerpt() Readiness {
	r.Reason, r.WaitingFor = excerpt.Of(r.Reason, excerpt.Foreign), excerpt.Each(r.WaitingFor, excerpt.Foreign)
	return r
}

// Values of Readiness.Reason.
const (
	// ReasonWaitingForMounts: the server is not started, because what is mounted
	// is not yet what the pod pins.
	ReasonWaitingForMounts = "WaitingForMounts"
	// ReasonStarting: the server runs and is not yet serving.
	ReasonStarting = "ServerStarting"
	// ReasonUnresponsive: a server that was ready does not answer any more.
	ReasonUnresponsive = "ServerUnresponsive"
	// ReasonStopping: the server was asked to stop.
	ReasonStopping = "ServerStopping"
)
