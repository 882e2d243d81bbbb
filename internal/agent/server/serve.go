package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of a server; every answer is small.
const (
	requestTimeout = 5 * time.Second
	idleTimeout    = 30 * time.Second
	maxHeader      = 16 << 10
)

// Listen opens a TCP listener.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

// Serve answers on the listener until the context ends. It returns immediately: the
// group waits for the end.
func Serve(ctx context.Context, group *errgroup.Group, listener net.Listener, handler http.Handler, log *slog.Logger) {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// Clients whose handshake fails must not fill the log.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
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

// Beside answers while run runs. listen opens what is answered, and adds what answers to the group. Answers are given longer
// than ctx lasts, until run has returned: the operator wants to know how a stop goes on.
func Beside(ctx context.Context, listen func(context.Context, *errgroup.Group) error, run func(context.Context) error) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	if err := listen(background, group); err != nil {
		return err
	}
	err := run(ctx)
	stop()
	if failure := group.Wait(); err == nil {
		err = failure
	}
	return err
}
