package kubetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// starts is set in the environment of the process that TestMain lets start a server.
const starts = "KEYTURN_TEST_STARTS"

func TestMain(m *testing.M) {
	if os.Getenv(starts) != "" && filepath.Base(os.Args[0]) != etcd {
		os.Exit(startAndWait())
	}
	os.Exit(Main(m.Run))
}

// startAndWait starts a server and waits for nothing but its own end.
func startAndWait() int {
	folder, err := tie()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.LockOSThread()
	server := exec.Command(filepath.Join(folder, etcd))
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	_ = server.Wait()
	return server.ProcessState.ExitCode()
}

func TestAServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	t.Parallel()
	assets := t.TempDir()
	const program = "#!/bin/sh\necho runs\nexec sleep 300\n"
	if err := os.WriteFile(filepath.Join(assets, etcd), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	output, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), starts+"=1", assetsVariable+"="+assets, "TMPDIR="+t.TempDir())
	starter.Stdout, starter.Stderr = theirs, theirs
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	if err := output.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(output)
	if line, err := from.ReadString('\n'); err != nil || line != "runs\n" {
		t.Fatalf("the server says %q, %v", line, err)
	}

	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()

	// The server holds the pipe open as long as it lives.
	if left, err := io.ReadAll(from); err != nil {
		t.Errorf("the server still runs: %v; it said %q", err, left)
	}
}

func TestAProgramRunsBesideAServerUntilItIsStopped(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho runs $1\nexec sleep 300\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	output, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stop, err := Run(theirs, program, "here")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(theirs.Close(), output.SetReadDeadline(time.Now().Add(2*time.Minute))); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(output)
	if line, err := from.ReadString('\n'); err != nil || line != "runs here\n" {
		t.Fatalf("the program says %q, %v", line, err)
	}

	stop()

	if left, err := io.ReadAll(from); err != nil {
		t.Errorf("the program still runs: %v; it said %q", err, left)
	}
}
