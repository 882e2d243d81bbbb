package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/agent/process"
)

// childMode makes the test binary behave as a child of the tests.
const childMode = "KEYTURN_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(m.Run())
}

// child is what the tests run.
func child(mode string) int {
	received := make(chan os.Signal, 8)
	switch mode {
	case "exits with 7":
		fmt.Println("on standard output")
		fmt.Fprintln(os.Stderr, "on standard error")
		return 7
	case "ends at SIGTERM with 3":
		signal.Notify(received, syscall.SIGTERM)
		fmt.Println("ready")
		<-received
		return 3
	case "tells its signals":
		signal.Notify(received, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGTERM)
		fmt.Println("ready")
		for sig := range received {
			fmt.Println(sig.String())
			if sig == syscall.SIGTERM {
				return 0
			}
		}
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
		// The runtime ends a program in which nothing can ever happen again; one that
		// listens for another signal is not such a program.
		signal.Notify(received, syscall.SIGUSR1)
		fmt.Println("ready")
		<-received
	case "leaves an orphan", "leaves an orphan with its output":
		return leaveOrphan(mode)
	case "is first and reaps":
		return reap()
	}
	return 99
}

// leaveOrphan starts a process that outlives it until its standard input ends.
func leaveOrphan(mode string) int {
	orphan := exec.Command("/bin/sleep", "0.2")
	if mode == "leaves an orphan with its output" {
		orphan = exec.Command("/bin/sleep", "3")
		orphan.Stdout = os.Stdout
	}
	if err := orphan.Start(); err != nil {
		return 98
	}
	fmt.Println(orphan.Process.Pid)
	return 0
}

// reap adopts orphans, as the first process of a container does, and supervises
// a child that leaves one while another child keeps it waiting.
func reap() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 97
	}
	var output bytes.Buffer
	s := process.Supervisor{Clock: clock.RealClock{}, Wait: process.WaitForAll, Grace: time.Minute, Log: slog.New(slog.DiscardHandler)}
	if exit, err := s.Run(context.Background(), command("leaves an orphan", &output), func() {}); err != nil || exit.Code() != 0 {
		return 96
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(output.String()))
	if err != nil {
		return 95
	}
	// While a second child is waited for, which lives longer than the orphan, the
	// orphan is reaped: a zombie would still have its id.
	longer := process.Command{Path: "/bin/sleep", Args: []string{"1"}, Consume: func(f *os.File) { _, _ = io.Copy(io.Discard, f) }}
	if _, err := s.Run(context.Background(), longer, func() {}); err != nil {
		return 94
	}
	if syscall.Kill(orphan, 0) == nil {
		return 93
	}
	return 0
}

func command(mode string, output io.Writer) process.Command {
	if output == nil {
		output = io.Discard
	}
	return process.Command{
		Path:    "/proc/self/exe",
		Env:     []string{childMode + "=" + mode},
		Consume: func(f *os.File) { _, _ = io.Copy(output, f) },
	}
}

func supervisor(signals <-chan os.Signal) process.Supervisor {
	return process.Supervisor{
		Clock: clock.RealClock{}, Signals: signals, Wait: process.WaitForOne, Grace: time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
}

func TestExitCodeAndOutputAreTheChilds(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	exit, err := supervisor(nil).Run(t.Context(), command("exits with 7", &output), func() {})
	if err != nil || exit.Code() != 7 {
		t.Errorf("exit code %d, %v; want 7", exit.Code(), err)
	}
	for _, line := range []string{"on standard output\n", "on standard error\n"} {
		if !strings.Contains(output.String(), line) {
			t.Errorf("output %q, want it to hold %q", output.String(), line)
		}
	}
}

func TestProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	c := command("", nil)
	c.Path = "/nonexistent/java"
	if exit, err := supervisor(nil).Run(t.Context(), c, func() {}); err == nil {
		t.Errorf("exit code %d, want an error", exit.Code())
	}
}

// onLine runs act when the child has written the line.
func onLine(line string, act func()) func(*os.File) {
	return func(f *os.File) {
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if lines.Text() == line {
				act()
			}
		}
	}
}

func TestEndOfContextAsksTheChildToEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := command("ends at SIGTERM with 3", nil)
	c.Consume = onLine("ready", cancel)
	asked := 0
	exit, err := supervisor(nil).Run(ctx, c, func() { asked++ })
	if err != nil || exit.Code() != 3 || asked != 1 {
		t.Errorf("exit code %d, %v, asked %d times; want 3, once", exit.Code(), err, asked)
	}
}

func TestWhatIsDoneBesideTheChildEndsOnceItIsAskedToEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := command("ends at SIGTERM with 3", nil)
	c.Consume = onLine("ready", cancel)
	var ended <-chan struct{}
	began, hasReturned := make(chan struct{}), false
	c.Beside = []func(context.Context){func(ctx context.Context) {
		ended = ctx.Done()
		close(began)
		<-ctx.Done()
		hasReturned = true
	}}
	exit, err := supervisor(nil).Run(ctx, c, func() {
		<-began
		select {
		case <-ended:
		default:
			t.Error("it goes on while the child is asked to end")
		}
	})
	if failed, is := errors.AsType[*process.ExitError](exit.Err()); err != nil || !is || failed.Code != 3 {
		t.Errorf("it ends with %v, %v; want exit code 3", exit.Err(), err)
	}
	if !hasReturned {
		t.Error("it is not waited for")
	}
}

func TestWhatIsDoneBesideAChildThatCannotStartEnds(t *testing.T) {
	t.Parallel()
	c := command("", nil)
	c.Path = "/nonexistent/java"
	hasReturned := false
	c.Beside = []func(context.Context){func(ctx context.Context) {
		<-ctx.Done()
		hasReturned = true
	}}
	if _, err := supervisor(nil).Run(t.Context(), c, func() {}); err == nil || !hasReturned {
		t.Errorf("error %v, and what is done beside has returned: %t", err, hasReturned)
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 8)
	var got []string
	c := command("tells its signals", nil)
	c.Consume = func(f *os.File) {
		next := []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGTERM}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			got = append(got, lines.Text())
			if len(next) > 0 {
				signals <- next[0]
				next = next[1:]
			}
		}
	}
	exit, err := supervisor(signals).Run(t.Context(), c, func() {})
	if err != nil || exit.Code() != 0 {
		t.Fatalf("exit code %d, %v", exit.Code(), err)
	}
	if want := "ready hangup user defined signal 1 terminated"; strings.Join(got, " ") != want {
		t.Errorf("the child saw %q, want %q", strings.Join(got, " "), want)
	}
}

func TestChildThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Now())
	s := supervisor(nil)
	s.Clock, s.Grace = fake, 30*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	c := command("ignores SIGTERM", nil)
	c.Consume = onLine("ready", cancel)
	done := make(chan process.Exit, 1)
	go func() {
		exit, err := s.Run(ctx, c, func() {})
		if err != nil {
			t.Error(err)
		}
		done <- exit
	}()
	for !fake.HasWaiters() {
		select {
		case exit := <-done:
			t.Fatalf("ended with %d before its time was up", exit.Code())
		case <-time.After(time.Millisecond):
		}
	}
	fake.Step(29 * time.Second)
	select {
	case exit := <-done:
		t.Fatalf("ended with %d before its time was up", exit.Code())
	default:
	}
	fake.Step(2 * time.Second)
	if exit := <-done; exit.Code() != 137 {
		t.Errorf("exit code %d, want 137: killed", exit.Code())
	}
}

func TestOrphanThatHoldsTheOutputIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	began := time.Now()
	exit, err := supervisor(nil).Run(t.Context(), command("leaves an orphan with its output", nil), func() {})
	if err != nil || exit.Code() != 0 {
		t.Fatalf("exit code %d, %v", exit.Code(), err)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("took %s, want little more than a second", took)
	}
}

func TestFirstProcessReapsOrphans(t *testing.T) {
	t.Parallel()
	first := exec.CommandContext(t.Context(), "/proc/self/exe")
	first.Env = append(os.Environ(), childMode+"=is first and reaps")
	if output, err := first.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
