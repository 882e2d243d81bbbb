package agentcli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/ownpod"
	"github.com/keyturn/keyturn/internal/pki"
)

// Environment variables with the defaults of the pod's flags. The operator fills them
// through the downward API.
const (
	podNameVariable      = "POD_NAME"
	podNamespaceVariable = "POD_NAMESPACE"
	podUIDVariable       = "POD_UID"
)

// etcdAgentFlags are what the operator tells the agent on its command line.
type etcdAgentFlags struct {
	name, namespace, uid string
	algorithm            string
}

func newEtcdCommand() *cobra.Command {
	var flags etcdAgentFlags
	command := &cobra.Command{
		Use:   "etcd [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run an etcd member on certificates that the operator signs for keys made here",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			options, err := flags.options(args)
			if err != nil {
				return err
			}
			return runEtcdAgent(command, options, etcdagent.Run)
		},
	}
	addOwnPodFlags(command.Flags(), &flags)
	return command
}

func addOwnPodFlags(set *pflag.FlagSet, f *etcdAgentFlags) {
	set.StringVar(&f.name, "pod-name", os.Getenv(podNameVariable), "name of the agent's own pod")
	set.StringVar(&f.namespace, "pod-namespace", os.Getenv(podNamespaceVariable), "namespace of the agent's own pod")
	set.StringVar(&f.uid, "pod-uid", os.Getenv(podUIDVariable), "UID of the agent's own pod")
	set.StringVar(&f.algorithm, "key-algorithm", string(pki.ECDSA), "algorithm of the keys that are made (ECDSA or RSA)")
}

func newEtcdMountedCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "etcd-mounted [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run an etcd member on certificates that are mounted, or on none",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			options := etcdagent.Defaults()
			options.Command = args
			return runEtcdAgent(command, options, etcdagent.RunMounted)
		},
	}
}

// runEtcdAgent runs an agent on what the process has.
func runEtcdAgent(command *cobra.Command, options etcdagent.Options, run func(context.Context, etcdagent.Options) error) error {
	signals := make(chan os.Signal, len(passedOn()))
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(signals)
	options.Output = command.OutOrStdout()
	options.Signals = signals
	options.Clock = clock.RealClock{}
	options.Log = slog.New(slog.NewJSONHandler(command.ErrOrStderr(), nil))
	return run(command.Context(), options)
}

var errAlgorithm = errors.New("--key-algorithm must be ECDSA or RSA")

func (f etcdAgentFlags) options(command []string) (etcdagent.Options, error) {
	algorithm := pki.Algorithm(f.algorithm)
	if algorithm != pki.ECDSA && algorithm != pki.RSA {
		return etcdagent.Options{}, errAlgorithm
	}
	api, err := ownpod.InCluster()
	if err != nil {
		return etcdagent.Options{}, fmt.Errorf("reading the pod's account: %w", err)
	}
	own, err := ownpod.New(api, ownpod.Pod{Namespace: f.namespace, Name: f.name, UID: f.uid})
	if err != nil {
		return etcdagent.Options{}, err
	}
	options := etcdagent.Defaults()
	options.Command = command
	options.PodName = f.name
	options.Key = pki.DefaultLeafKey(algorithm)
	options.Annotate = own.Annotate
	return options, nil
}
