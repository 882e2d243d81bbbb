package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"

	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/health"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
)

// firstProcess is the first process of a container that runs etcd.
type firstProcess struct {
	Options

	starter  starter
	program  string
	observer *observer
	enroller *enroller
}

// Run is the whole life of the agent. It returns when etcd has ended: nil if it ended
// well, a process.ExitError if not. The end of the context asks etcd to end, as SIGTERM
// does.
func Run(ctx context.Context, options Options) error {
	a, err := newFirstProcess(options)
	if err != nil {
		return err
	}
	if a.enroller, err = newEnroller(options, a.observer); err != nil {
		return err
	}
	return server.Beside(ctx, a.listen, a.run)
}

// RunMounted is Run for an etcd whose certificates others keep, if it has any. The agent
// asks for none and serves the kubelet alone.
func RunMounted(ctx context.Context, options Options) error {
	a, err := newFirstProcess(options)
	if err != nil {
		return err
	}
	return server.Beside(ctx, a.listenPlain, func(ctx context.Context) error {
		if _, err := a.starter.arguments(); err != nil {
			return a.starter.report(err)
		}
		a.observer.Started(0, a.Clock.Now(), nil)
		return a.runEtcd(ctx, a.monitor)
	})
}

func newFirstProcess(options Options) (*firstProcess, error) {
	program, err := exec.LookPath(options.Command[0])
	if err != nil {
		return nil, fmt.Errorf("finding the program to start: %w", err)
	}
	return &firstProcess{Options: options, starter: starter{options}, program: program, observer: &observer{}}, nil
}

// listen starts to answer the operator and the kubelet; the group ends with the context.
func (a *firstProcess) listen(ctx context.Context, group *errgroup.Group) error {
	secure, err := server.Listen(ctx, a.SecureAddress)
	if err != nil {
		return err
	}
	if err := a.listenPlain(ctx, group); err != nil {
		_ = secure.Close() // nothing was answered on it
		return err
	}
	metrics := map[string]http.Handler{"GET " + agent.MetricsPath: metricsHandler(a.observer)}
	server.Serve(ctx, group, tls.NewListener(secure, server.TLSConfig(a.observer.Facing, a.Clock.Now)),
		server.OperatorHandler(a.observer, isOperator, metrics), a.Log)
	return nil
}

// listenPlain starts to answer the kubelet.
func (a *firstProcess) listenPlain(ctx context.Context, group *errgroup.Group) error {
	plain, err := server.Listen(ctx, a.ProbeAddress)
	if err != nil {
		return err
	}
	server.Serve(ctx, group, plain, server.ProbeHandler(a.observer), a.Log)
	return nil
}

// run is the sequence from the first request to the end of etcd, which is started again when the operator asks for that.
// That etcd cannot start is reported before anything is asked for.
func (a *firstProcess) run(ctx context.Context) error {
	if _, err := a.starter.arguments(); err != nil {
		return a.starter.report(err)
	}
	grant, err := a.await(ctx)
	if err != nil {
		return err
	}
	for {
		if err := a.enroller.begin(grant); err != nil {
			return err
		}
		a.Log.Info("Starting etcd", "revision", grant.Publication.Revision)
		err := a.runUntilRestart(ctx)
		if a.enroller.restartUnder == nil || ctx.Err() != nil {
			return err
		}
		if _, hasEnded := errors.AsType[*process.ExitError](err); err != nil && !hasEnded {
			return err
		}
		grant = *a.enroller.restartUnder
	}
}

// runUntilRestart runs etcd until it has exited, and stops it once it is to be restarted under another grant.
func (a *firstProcess) runUntilRestart(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	return a.runEtcd(ctx, a.monitor, func(beside context.Context) {
		if a.renew(beside) {
			a.Log.Info("Ending etcd, to start it under other CAs", "revision", a.enroller.restartUnder.Publication.Revision)
			end()
		}
	})
}

// runEtcd runs etcd until it has ended.
func (a *firstProcess) runEtcd(ctx context.Context, besides ...func(context.Context)) error {
	arguments, err := a.starter.arguments() // members may have changed while certificates were waited for
	if err != nil {
		return a.starter.report(err)
	}
	exit, err := a.serve(ctx, arguments, besides)
	a.observer.Ended()
	if err != nil {
		return fmt.Errorf("running etcd: %w", err)
	}
	return exit.Err()
}

// await returns when every plane has a certificate that the mounted anchors verify.
func (a *firstProcess) await(ctx context.Context) (enrollment.Grant, error) {
	for {
		grant, err := a.enroller.step(ctx)
		if err == nil {
			return grant, nil
		}
		select {
		case <-ctx.Done():
			return enrollment.Grant{}, &process.ExitError{Code: process.Terminated}
		case <-a.Clock.After(lookPause):
		}
	}
}

// serve runs etcd and what is done meanwhile: it is asked whether it serves, and its certificates are replaced.
func (a *firstProcess) serve(ctx context.Context, arguments []string, besides []func(context.Context)) (process.Exit, error) {
	supervisor := process.Supervisor{Clock: a.Clock, Signals: a.Signals, Wait: a.Wait, Grace: stopGrace, Log: a.Log}
	return supervisor.Run(ctx, process.Command{
		Path: a.program, Args: arguments, Env: a.Env,
		Consume: func(output *os.File) { _, _ = io.Copy(process.Lossy(a.Output), output) }, // ends with the output
		Beside:  besides,
	}, a.observer.Stopping)
}

// renew replaces certificates as the operator answers, until the context ends or etcd is to be restarted, which it
// reports.
func (a *firstProcess) renew(ctx context.Context) (mustRestart bool) {
	for {
		_, _ = a.enroller.step(ctx) // what it could not do is in the report and the log
		if a.enroller.restartUnder != nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-a.Clock.After(lookPause):
		}
	}
}

// monitor asks etcd whether it serves, until the context ends.
func (a *firstProcess) monitor(ctx context.Context) {
	probe := newProbe(a.HealthURL)
	defer probe.close()
	recorded := false
	check := func(ctx context.Context) error {
		if recorded {
			return probe.check(ctx)
		}
		if err := errors.Join(a.starter.recordData(), probe.check(ctx)); err != nil {
			return err
		}
		err := a.starter.isRecorded()
		recorded = err == nil
		return err
	}
	health.Monitor{Clock: a.Clock, Check: check, Eager: eagerPause, Calm: calmPause}.Run(ctx, func(err error) {
		switch {
		case err == nil:
			if a.observer.Serving() {
				a.Log.Info("The member serves", "after", a.Clock.Since(a.observer.TLS().StartedAt).String())
			}
		case a.observer.NotServing(err.Error()):
			a.Log.Warn("The member does not serve any more", "error", err)
		}
	})
}

// each calls do for each identity in the order of the planes, until one fails.
func each(identities map[contract.Plane]*identity, do func(*identity) error) error {
	for _, plane := range contract.Planes() {
		if err := do(identities[plane]); err != nil {
			return err
		}
	}
	return nil
}
