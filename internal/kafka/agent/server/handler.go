package server

import (
	"net/http"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
)

// Source is what there is to answer.
type Source interface {
	server.Source
	BrokerState() contract.BrokerState
}

// OperatorHandler answers the operator, and forbids every other client to ask. It
// must be served with TLSConfig.
func OperatorHandler(source Source, metrics http.Handler) http.Handler {
	return server.OperatorHandler(source, IsOperator, map[string]http.Handler{
		"GET " + contract.BrokerStatePath: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			server.Answer(w, http.StatusOK, source.BrokerState())
		}),
		"GET " + agent.MetricsPath: metrics,
	})
}
