package agent

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	agenthealth "github.com/keyturn/keyturn/internal/agent/health"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/health"
	"github.com/keyturn/keyturn/internal/kafka/agent/java"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/serverlog"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// firstProcess is the first process of a container that runs Kafka: it starts the server
// and tells what that has loaded.
type firstProcess struct {
	Options

	kafka    java.Kafka
	observer *observer
}

// Run is the whole life of the agent. It returns when the server has ended: nil
// if it ended well, a process.ExitError if not. The end of the context asks the server
// to end, as SIGTERM does.
func Run(ctx context.Context, options Options) error {
	kafka, err := java.Find(options.KafkaHome, options.JavaHome)
	if err != nil {
		return err
	}
	a := &firstProcess{Options: options, kafka: kafka, observer: newObserver(mount.NewReader(options.Mounts))}
	listen := func(ctx context.Context, group *errgroup.Group) error {
		if err := a.listen(ctx, group); err != nil {
			return err
		}
		group.Go(func() error { a.watch(ctx); return nil })
		return nil
	}
	return server.Beside(ctx, listen, a.run)
}

// run is the sequence from waiting to the server's end.
func (a *firstProcess) run(ctx context.Context) error {
	matched, err := a.await(ctx)
	if err != nil {
		return err
	}
	rendered := matched.Render(a.storesDir())
	if err := a.write(rendered); err != nil {
		return err
	}
	if err := a.format(ctx, matched); err != nil {
		return err
	}
	a.Log.Info("Starting the server", "revision", matched.Publication.Revision, "roles", rendered.Roles)
	a.observer.Started(matched.Publication.Revision, a.Clock.Now(), rendered.Roles)
	exit, err := a.serve(ctx, matched)
	a.observer.Ended()
	if err != nil {
		return err
	}
	return exit.Err()
}

func (a *firstProcess) supervisor() process.Supervisor {
	return process.Supervisor{Clock: a.Clock, Signals: a.Signals, Wait: a.Wait, Log: a.Log}
}

// serve runs the server, and asks it meanwhile whether it serves.
func (a *firstProcess) serve(ctx context.Context, matched stores.Matched) (process.Exit, error) {
	hints := make(chan struct{}, 1)
	loader := a.newLoader(matched)
	supervisor := a.supervisor()
	supervisor.Grace = matched.Config.Grace()
	exit, err := supervisor.Run(ctx, process.Command{
		Path: a.kafka.Java,
		Args: a.kafka.Server(matched.Config.JavaOptions, a.logging(), a.propertiesPath()),
		Env:  a.Env,
		Consume: func(output *os.File) {
			serverlog.Pump(output, a.Output, func(e serverlog.Event) { a.note(e, hints) })
		},
		Beside: []func(context.Context){
			func(ctx context.Context) { a.monitor(ctx, matched, hints) },
			loader.run,
		},
	}, a.observer.Stopping)
	if err != nil {
		return exit, fmt.Errorf("running the server: %w", err)
	}
	return exit, nil
}

func (a *firstProcess) note(event serverlog.Event, hints chan<- struct{}) {
	if event == serverlog.Recovering {
		a.observer.Recovering()
	}
	select {
	case hints <- struct{}{}:
	default: // one is already on its way
	}
}

// monitor asks the server whether it serves, until the context ends.
func (a *firstProcess) monitor(ctx context.Context, matched stores.Matched, hints <-chan struct{}) {
	own := a.server(matched)
	own.Limit = questionLimit
	probe := health.NewProbe(own)
	agenthealth.Monitor{
		Clock: a.Clock, Check: probe.Check, Hints: hints, Eager: eagerPause, Calm: calmPause,
	}.Run(ctx, func(err error) {
		switch {
		case err == nil:
			if a.observer.Serving() {
				a.Log.Info("The server serves", "after", a.Clock.Since(a.observer.TLS().StartedAt).String())
			}
		case a.observer.NotServing(err.Error()):
			a.Log.Warn("The server does not answer any more", "error", err)
		}
	})
	if err := probe.Close(); err != nil {
		a.Log.Debug("Closing the connection to the server failed", "error", err)
	}
}

// watch says in the log when a new publication is mounted, and measures how long
// that took.
func (a *firstProcess) watch(ctx context.Context) {
	for {
		if published, isNew := a.observer.look(a.Clock.Now()); isNew {
			a.Log.Info("A publication is mounted", "revision", published.Revision,
				"mountLagSeconds", a.observer.MountLag().Seconds())
		}
		select {
		case <-ctx.Done():
			return
		case <-a.Clock.After(watchPause):
		}
	}
}
