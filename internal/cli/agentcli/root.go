package agentcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/internal/cli/build"
)

// exitFailed is the code of what could not be done.
const exitFailed = 1

// exitCoder is an error that carries the exit code of a child process, so that
// the agent ends as the server it ran did.
type exitCoder interface {
	error
	ExitCode() int
}

// Main runs the command line and returns the exit code. args begins with the name of the
// program.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := newRootCommand()
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if coder, is := errors.AsType[exitCoder](err); is {
		return coder.ExitCode()
	}
	_, _ = fmt.Fprintln(stderr, err)
	return exitFailed
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "keyturn-agent",
		Short: "Run inside a pod, as the first process of its container",
		Long: "Run inside a pod, as the first process of its container.\n" +
			"The operator puts these commands into the pods it makes; people have no use for them.",
		Version:           build.Version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(newKafkaCommand(), newEtcdCommand(), newEtcdMountedCommand(), newEtcdBackupCommand(), newEtcdRestoreCommand(), newInstallCommand())
	return root
}

// passedOn are the signals that mean something to a server. The end of the
// command's context stands for those that ask it to stop.
func passedOn() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}
