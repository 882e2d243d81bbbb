package cli

import (
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
	"github.com/keyturn/keyturn/internal/kafka/agent/peer"
)

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
