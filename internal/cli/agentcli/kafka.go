package agentcli

import (
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/kafka/agent"
)

func newKafkaCommand() *cobra.Command {
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
