package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// exitCoder is an error that carries the exit code of a child process, so that
// the agent ends as the server it ran did.
type exitCoder interface {
	error
	ExitCode() int
}

// Main runs the command line and returns the exit code. args includes the
// program's name: called as kubectl-keyturn, the binary shows itself as
// "kubectl keyturn".
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	root := newRootCommand(programName(args[0]))
	root.SetArgs(args[1:])
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if coder, is := errors.AsType[exitCoder](err); is {
		return coder.ExitCode()
	}
	_, _ = fmt.Fprintln(stderr, err)
	if _, is := errors.AsType[refusedError](err); is {
		return exitRefused
	}
	return 1
}

func programName(path string) string {
	if filepath.Base(path) == "kubectl-keyturn" {
		return "kubectl keyturn"
	}
	return "keyturn"
}

func newRootCommand(name string) *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Short:         "Run Apache Kafka on Kubernetes; no certificate event interrupts a client",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.AddCommand(
		newOperatorCommand(),
		newAgentCommand(),
		newProbeCommand(),
		newStatusCommand(),
		newPlanCommand(),
		newRotateCommand(),
	)
	return root
}
