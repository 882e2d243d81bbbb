package agentcli

import (
	"log/slog"

	"github.com/spf13/cobra"

	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

func newEtcdRestoreCommand() *cobra.Command {
	restore := etcdagent.Restore{Options: etcdagent.Defaults(), Volume: contract.RestoreDir}
	command := &cobra.Command{
		Use:   "etcd-restore [flags] -- COMMAND [ARGUMENT...]",
		Short: "Restore the data of the first member of a new etcd cluster from a file, by etcdutl",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			restore.Command = args
			restore.Output = command.OutOrStdout()
			restore.Log = slog.New(slog.NewJSONHandler(command.ErrOrStderr(), nil))
			return restore.Run(command.Context())
		},
	}
	set := command.Flags()
	set.StringVar(&restore.Path, "path", "", "file to restore, below the volume with it")
	set.StringVar(&restore.SHA256, "sha256", "", "SHA-256 of the file in hex; empty accepts any")
	return command
}
