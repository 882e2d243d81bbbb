package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/metrics"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
)

// Limits of the agent's two servers; every answer is small.
const (
	requestTimeout = 5 * time.Second
	idleTimeout    = 30 * time.Second
	maxHeader      = 16 << 10
)

// listen starts to answer the operator and the kubelet; the group ends with the
// context.
func (a *firstProcess) listen(ctx context.Context, group *errgroup.Group) error {
	secure, err := a.bind(ctx, a.SecureAddress)
	if err != nil {
		return err
	}
	plain, err := a.bind(ctx, a.ProbeAddress)
	if err != nil {
		return errors.Join(err, secure.Close())
	}
	secure = tls.NewListener(secure, server.TLSConfig(a.observer.Facing, a.Clock.Now))
	a.serveHTTP(ctx, group, secure, server.OperatorHandler(a.observer, metrics.Handler(a.observer, a.config)))
	a.serveHTTP(ctx, group, plain, server.ProbeHandler(a.observer))
	return nil
}

func (a *firstProcess) bind(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

func (a *firstProcess) serveHTTP(ctx context.Context, group *errgroup.Group, listener net.Listener, handler http.Handler) {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// Strangers whose handshake fails must not fill the log.
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error {
		err := s.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	})
	group.Go(func() error {
		<-ctx.Done()
		return s.Close()
	})
}

// config returns the agent's configuration as it is mounted now, its zero value
// if it cannot be read.
func (a *firstProcess) config() contract.Config {
	mounted, _, err := a.observer.reader.Read()
	if err != nil {
		return contract.Config{}
	}
	config, err := contract.ParseConfig(mounted.Config[contract.AgentConfigKey])
	if err != nil {
		return contract.Config{}
	}
	return config
}
