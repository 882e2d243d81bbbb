package cli

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent/install"
	"github.com/keyturn/keyturn/internal/kafka/agent"
)

func newAgentCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "agent",
		Short: "Run inside a pod, as the first process of its container",
		Long: "Run inside a pod, as the first process of its container.\n" +
			"The operator puts these commands into the pods it makes; people have no use for them.",
	}
	command.AddCommand(newAgentKafkaCommand(), newAgentEtcdCommand(), newAgentEtcdMountedCommand(), newAgentEtcdBackupCommand(), newAgentEtcdRestoreCommand(), newAgentInstallCommand())
	return command
}

// passedOn are the signals that mean something to a server. The end of the
// command's context stands for those that ask it to stop.
func passedOn() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

func newAgentKafkaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kafka",
		Short: "Run a Kafka server on the stores that the operator published",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			signals := make(chan os.Signal, len(passedOn()))
			signal.Notify(signals, passedOn()...)
			defer signal.Stop(signals)
			options := agent.Defaults()
			options.Output = command.OutOrStdout()
			options.Signals = signals
			options.Clock = clock.RealClock{}
			options.Log = slog.New(slog.NewJSONHandler(command.ErrOrStderr(), nil))
			return agent.Run(command.Context(), options)
		},
	}
}

func newAgentInstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DESTINATION",
		Short: "Copy this program to DESTINATION, whole or not at all",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			return install.Copy(program, args[0])
		},
	}
}
