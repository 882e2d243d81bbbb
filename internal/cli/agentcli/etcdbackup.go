package agentcli

import (
	"log/slog"
	"path"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/snapshot"
)

func newEtcdBackupCommand() *cobra.Command {
	var flags etcdAgentFlags
	var url, cluster, clusterUID, name string
	var keep int
	command := &cobra.Command{
		Use:   "etcd-backup",
		Short: "Copy the data of an etcd cluster to a volume, as a client with a certificate for a key made here",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options, err := flags.options(nil)
			if err != nil {
				return err
			}
			options.Clock = clock.RealClock{}
			options.Log = slog.New(slog.NewJSONHandler(command.ErrOrStderr(), nil))
			return etcdagent.Backup{
				Options: options, URL: url, Keep: keep,
				Store: snapshot.Store{Volume: contract.BackupDir, Directory: path.Join(cluster, name, clusterUID)},
			}.Run(command.Context())
		},
	}
	set := command.Flags()
	addOwnPodFlags(set, &flags)
	set.StringVar(&url, "url", "", "URL at which clients reach the cluster")
	set.StringVar(&cluster, "cluster", "", "name of the EtcdCluster")
	set.StringVar(&clusterUID, "cluster-uid", "", "UID of the EtcdCluster: another one of its name has backups of its own")
	set.StringVar(&name, "backup", "", "name of the EtcdBackup")
	set.IntVar(&keep, "keep", 0, "number of backups to keep; 0 keeps all")
	return command
}
