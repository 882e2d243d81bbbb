package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/bed/internal/confine"
	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/state"
)

// New builds the command line.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "bed",
		Short:         "A real one-node Kubernetes, built from Go modules",
		Long:          "A real one-node Kubernetes, built from Go modules: no registry, no container engine, nothing left behind.\nEverything lies in one folder, $KEYTURN_BED or keyturn-bed in the user's cache.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		buildCommand(), upCommand(), downCommand(), statusCommand(), imageCommand(), registryCommand(), logsCommand(),
		kubeconfigCommand(), assetsCommand(), certManagerCommand(), kafkaCommand(), etcdCommand(), kubectlCommand(), nodeCommand(), provisionerCommand(), networkPoliciesCommand(), confinedCommand(),
	)
	return root
}

// nodeCommand is what `up` starts inside the namespaces.
func nodeCommand() *cobra.Command {
	var folder, described string
	command := &cobra.Command{
		Use: "node", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var programs node.Programs
			if err := json.Unmarshal([]byte(described), &programs); err != nil {
				return fmt.Errorf("reading where the programs are: %w", err)
			}
			return node.Inside(state.Folder(folder), programs, os.Stdin)
		},
	}
	command.Flags().StringVar(&folder, "folder", "", "state folder")
	command.Flags().StringVar(&described, "programs", "", "where the programs are")
	return command
}

// confinedCommand is what runs an image's own programs while the image is made.
func confinedCommand() *cobra.Command {
	return &cobra.Command{
		Use: confine.Subcommand + " ROOT PROGRAM", Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return confine.Enter(args[0], args[1:]) },
	}
}
