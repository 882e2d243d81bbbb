package server

import (
	"encoding/json"
	"net/http"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Source is what there is to answer.
type Source interface {
	TLS() publication.Report
	Readiness() agent.Readiness
	BrokerState() contract.BrokerState
}

// OperatorHandler answers the operator, and forbids everybody else to ask. It
// must be served with TLSConfig.
func OperatorHandler(source Source, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agent.TLSPath, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, source.TLS())
	})
	mux.HandleFunc("GET "+contract.BrokerStatePath, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, source.BrokerState())
	})
	mux.HandleFunc("GET "+agent.ReadyPath, ready(source))
	mux.Handle("GET "+agent.MetricsPath, metrics)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOperator(r.TLS) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ProbeHandler answers the kubelet, which shows no certificate: ready or not,
// and alive.
func ProbeHandler(source Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agent.ReadyPath, ready(source))
	mux.HandleFunc("GET "+agent.LivePath, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func ready(source Source) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		readiness := source.Readiness()
		if readiness.Ready {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, http.StatusServiceUnavailable, readiness)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // who asked has gone: nobody is left to tell
}
