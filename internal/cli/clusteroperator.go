package cli

import (
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/keyturn/keyturn/internal/kafka/agent/peer"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/mtls"
)

// clusterOperator is an operator for the objects of one Kafka cluster.
type clusterOperator struct {
	// name is that of its command, such as user-operator.
	name    string
	process processOptions
	cluster types.NamespacedName
	beside  besideOptions
}

// addFlags adds the flags; objects are what is looked after.
func (o *clusterOperator) addFlags(flags *pflag.FlagSet, objects string) {
	o.process.addFlags(flags, "")
	flags.Lookup("leader-election-id").Usage += "; empty means <cluster>-" + o.name
	flags.StringVar(&o.cluster.Name, "cluster", "", "Kafka cluster whose "+objects+" are looked after")
	flags.StringVar(&o.cluster.Namespace, "namespace", "", "namespace of the Kafka cluster and of its "+objects)
	o.beside.addFlags(flags)
}

// complete fills in what no flag says; lease is the Lease of all such operators of a cluster.
func (o *clusterOperator) complete(lease func(cluster string) string) error {
	if o.cluster.Name == "" {
		return missingFlagError("cluster")
	}
	if o.cluster.Namespace == "" {
		return missingFlagError("namespace")
	}
	if o.process.leaderElectionID == "" {
		o.process.leaderElectionID = lease(o.cluster.Name)
	}
	if o.process.leaderElectionNS == "" {
		o.process.leaderElectionNS = o.cluster.Namespace
	}
	return nil
}

// run runs the controllers that are added until the context of the command ends.
func (o *clusterOperator) run(cmd *cobra.Command, cached cache.Options, concurrency int, add func(watches.Manager, *kube.ServerClock) error) error {
	options := o.process.managerOptions(cached)
	options.Controller.MaxConcurrentReconciles = concurrency
	return o.process.run(cmd, o.name, options, add)
}

// besideOptions are those of a process that may run beside the nodes, as a peer of theirs.
type besideOptions struct {
	// certificate is the name of the mounted one; empty for a process that runs elsewhere.
	certificate string
	// address is where the process proves to the cluster operator what it has loaded; empty means that of every agent.
	address string
	// process tells it from others that share its pod.
	process string
}

func (o *besideOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.certificate, "mounted-certificate", "", "name of the mounted certificate to connect to Kafka with, in a pod beside the nodes; empty means that of the cluster operator, read from its Secret")
	flags.StringVar(&o.address, "certificate-address", "", "address at which the cluster operator asks which certificate is loaded, in a pod beside the nodes; empty means port 8443")
}

// credentials are what the process presents to Kafka. Beside the nodes it is a peer of theirs, whether it acts or not, and
// elsewhere it presents what is stored.
func (o *besideOptions) credentials(mgr ctrl.Manager, stored mtls.Source) (mtls.Source, error) {
	if o.certificate == "" {
		return stored, nil
	}
	options := peer.Defaults(o.certificate)
	options.Process, options.Clock, options.Log = o.process, clock.RealClock{}, slog.New(logr.ToSlogHandler(mgr.GetLogger()))
	if o.address != "" {
		options.Address = o.address
	}
	beside := peer.New(options)
	if err := mgr.Add(beside); err != nil {
		return nil, fmt.Errorf("adding the peer of the nodes: %w", err)
	}
	if err := mgr.AddReadyzCheck("certificate", beside.Ready); err != nil {
		return nil, fmt.Errorf("adding health checks: %w", err)
	}
	return beside.Credentials, nil
}
