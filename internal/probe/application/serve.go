package application

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	closeTimeout  = time.Second
)

// serve answers on an address until ctx ends. It returns once nothing is served.
func (c *client) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: c.handler(), ReadHeaderTimeout: headerTimeout}
	closed := context.AfterFunc(ctx, func() {
		// What is being answered may end; nothing is lost with what does not.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = server.Shutdown(ending)
	})
	defer closed()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the account: %w", err)
	}
	return nil
}

func (c *client) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = write(w, c.account()) // a reader that has gone needs no answer
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if account := c.account(); !account.Working() {
			http.Error(w, "no record has made the round trip yet: "+account.reason(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// reason is what keeps the client from working.
func (a *Account) reason() string {
	switch {
	case a.Waiting != "":
		return a.Waiting
	case a.Problem != "":
		return a.Problem
	default:
		return "the first records are on their way"
	}
}

// write writes an account as one line of JSON.
func write(out io.Writer, account Account) error {
	if err := json.NewEncoder(out).Encode(account); err != nil {
		return fmt.Errorf("writing the account: %w", err)
	}
	return nil
}
