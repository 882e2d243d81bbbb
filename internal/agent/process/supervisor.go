package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// Command is a program and how it is started. There is no shell.
type Command struct {
	// Path is the program's file; Args the arguments after its name.
	Path string
	Args []string
	// Env is its whole environment.
	Env []string
	// Consume reads its standard output and standard error until their end.
	Consume func(output *os.File)
	// Beside is done until the command has ended or is asked to: what it answers from then on makes it no more ready.
	Beside []func(context.Context)
}

// Exit is how a process ended.
type Exit struct {
	status syscall.WaitStatus
}

// Code is the exit code, or 128 plus the number of the signal that ended it, as
// shells and container runtimes have it.
func (e Exit) Code() int {
	if e.status.Signaled() {
		return signalBase + int(e.status.Signal())
	}
	return e.status.ExitStatus()
}

// Err is an ExitError unless the process ended well.
func (e Exit) Err() error {
	if e.Code() == 0 {
		return nil
	}
	return &ExitError{Code: e.Code()}
}

// lastWords is how long the output of a child that has ended is waited for.
const lastWords = time.Second

// signalBase is added to the number of a signal that ended a process.
const signalBase = 128

// Waiter waits for the end of a process by its id.
type Waiter func(pid int) (syscall.WaitStatus, error)

// Supervisor runs children. Only one runs at a time.
type Supervisor struct {
	// Clock measures Grace.
	Clock clock.Clock
	// Signals are passed on to the child as they come.
	Signals <-chan os.Signal
	// Wait is WaitForAll in the first process of a container, else WaitForOne.
	Wait Waiter
	// Grace is how long the child may take to end after it was asked to, before
	// it is killed.
	Grace time.Duration
	// Log gets what is done to the child.
	Log *slog.Logger
}

// Run starts the command and returns when it has ended. The end of the context
// asks the child to end (SIGTERM), as does such a signal. asked is called when
// that happens first.
func (s Supervisor) Run(ctx context.Context, command Command, asked func()) (Exit, error) {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for _, do := range command.Beside {
		group.Go(func() { do(beside) })
	}
	child, consumed, err := start(command)
	if err != nil {
		return Exit{}, fmt.Errorf("starting %s: %w", command.Path, err)
	}
	s.Log.Info("Started", "program", command.Path, "pid", child)
	ended := make(chan outcome, 1)
	go func() {
		status, err := s.Wait(child)
		ended <- outcome{status, err}
	}()
	o := s.accompany(ctx, child, ended, func() {
		stop()
		asked()
	})
	if o.err != nil {
		return Exit{}, fmt.Errorf("waiting for %s: %w", command.Path, o.err)
	}
	select {
	case <-consumed:
	case <-s.Clock.After(lastWords): // a process that it left behind still holds its output
	}
	exit := Exit{status: o.status}
	s.Log.Info("Ended", "program", command.Path, "pid", child, "exitCode", exit.Code())
	return exit, nil
}

// outcome is what waiting brought.
type outcome struct {
	status syscall.WaitStatus
	err    error
}

// accompany passes signals on until the child has ended.
func (s Supervisor) accompany(ctx context.Context, child int, ended <-chan outcome, asked func()) outcome {
	var deadline <-chan time.Time
	cancelled := ctx.Done()
	stop := func(sig syscall.Signal) {
		s.signal(child, sig)
		if deadline == nil {
			deadline = s.Clock.After(s.Grace)
			asked()
		}
	}
	for {
		select {
		case o := <-ended:
			return o
		case <-cancelled:
			cancelled = nil
			stop(syscall.SIGTERM)
		case received := <-s.Signals:
			sig, ok := received.(syscall.Signal)
			switch {
			case !ok:
			case sig == syscall.SIGTERM || sig == syscall.SIGINT:
				stop(sig)
			default:
				s.signal(child, sig)
			}
		case <-deadline:
			s.Log.Warn("Killing a process that did not stop in time", "pid", child, "grace", s.Grace)
			s.signal(child, syscall.SIGKILL)
			deadline = nil
			asked = func() {}
		}
	}
}

func (s Supervisor) signal(child int, sig syscall.Signal) {
	s.Log.Info("Passing on a signal", "pid", child, "signal", sig.String())
	// The child leads its own group, but only it is meant: what it started is its
	// own to stop. One that has just ended is no error.
	if err := syscall.Kill(child, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.Log.Error("Passing on a signal failed", "pid", child, "signal", sig.String(), "error", err)
	}
}

// start starts the command and the reading of its output; the channel is closed
// when that has come to its end.
func start(command Command) (pid int, consumed <-chan struct{}, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	output, input, err := os.Pipe()
	if err != nil {
		return 0, nil, errors.Join(err, null.Close())
	}
	pid, err = fork(command, null, input)
	// Those are the child's now; its output ends when it has closed them.
	if err = errors.Join(err, null.Close(), input.Close()); err != nil {
		return 0, nil, errors.Join(err, output.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		command.Consume(output)
		_ = output.Close() // opened for reading: nothing can be lost
	}()
	return pid, done, nil
}

// fork starts the program below os.StartProcess, whose handle would want to be
// waited for as well.
func fork(command Command, null, output *os.File) (int, error) {
	return syscall.ForkExec(command.Path, append([]string{command.Path}, command.Args...), &syscall.ProcAttr{
		Env:   command.Env,
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		// A group of its own, so that a terminal's signals reach it once, through us.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// WaitForOwn is how this process waits for children: for all if it is the first of a container.
func WaitForOwn() Waiter {
	if os.Getpid() == 1 {
		return WaitForAll
	}
	return WaitForOne
}

// WaitForOne waits for the one process and for no other.
func WaitForOne(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return status, err
		}
	}
}

// WaitForAll waits for the process and meanwhile reaps whatever else ends, because the first process of a
// container inherits orphans and must reap them.
func WaitForAll(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case ended == pid:
			return status, nil
		}
	}
}
