package server

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/json"
	"net/http"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Source is what there is to answer.
type Source interface {
	TLS() publication.Report
	Readiness() agent.Readiness
}

// OperatorHandler answers the operator, and forbids every other client to ask. It
// must be served with TLSConfig. isOperator judges the subject of the verified
// certificate: nodes may have certificates of the same authority. More handlers are
// added under their patterns.
func OperatorHandler(source Source, isOperator func(subject pkix.Name) bool, more map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agent.TLSPath, func(w http.ResponseWriter, _ *http.Request) {
		Answer(w, http.StatusOK, source.TLS())
	})
	mux.HandleFunc("GET "+agent.ReadyPath, ready(source))
	for pattern, handler := range more {
		mux.Handle(pattern, handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !verified(r.TLS) || !isOperator(r.TLS.PeerCertificates[0].Subject) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func verified(state *tls.ConnectionState) bool {
	return state != nil && len(state.PeerCertificates) > 0
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
		Answer(w, http.StatusServiceUnavailable, readiness)
	}
}

// Answer writes the body as JSON.
func Answer(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // it fails only when the client has gone
}
