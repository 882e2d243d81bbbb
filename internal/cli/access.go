package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Requests per second, and at once, that kubectl allows itself. The default of the
// client would make a status of all Kafkas wait for itself.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 300
)

// access is the way to a Kubernetes cluster, as kubectl's flags name it.
type access struct {
	program program
	config  *kubeconfig
	// flags are those of config, which all commands that reach a cluster have.
	flags *pflag.FlagSet
}

func newAccess(p program) access {
	a := access{program: p, config: newKubeconfig(), flags: pflag.NewFlagSet("connection", pflag.ContinueOnError)}
	a.config.addFlags(a.flags)
	return a
}

// commands are those that reach a cluster.
func (a access) commands(draw Draw) []*cobra.Command {
	list := []*cobra.Command{
		newProbeCommand(a.config, a.connect, draw), checkCommand(a.connect), statusCommand(a.connect), planCommand(a.connect), rotateCommand(a.connect),
	}
	for _, cmd := range list {
		cmd.Flags().AddFlagSet(a.flags)
	}
	a.completeFlags(list[0]) // the flags are the same for all
	return list
}

// connection is the way to a Kubernetes cluster, and the namespace that is meant.
type connection struct {
	client    client.Client
	namespace string
	clock     clock.WithTicker
	// program is what messages call this command line.
	program string
}

// connector makes a connection once the flags are known.
type connector func() (connection, error)

// connect connects as kubectl does.
func (a access) connect() (connection, error) {
	loader := a.config.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return connection{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.WarningHandler = rest.NoWarnings{} // they are for who writes manifests
	namespace, _, err := loader.Namespace()
	if err != nil {
		return connection{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return connection{}, fmt.Errorf("connecting to the API server: %w", err)
	}
	return connection{client: api, namespace: namespace, clock: clock.RealClock{}, program: a.program.name}, nil
}
