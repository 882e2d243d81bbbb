package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/user/controller"
)

var errReissueRate = errors.New("--reissue-rate must be at least 1")

// userOperatorOptions are the flags of the user operator.
type userOperatorOptions struct {
	clusterOperator

	concurrency int
	pkcs12      bool
	// featureGates are as the flag says.
	featureGates string
	reissueRate  int
	secretPrefix string
}

func newUserOperatorCommand() *cobra.Command {
	o := userOperatorOptions{clusterOperator: clusterOperator{name: "user-operator"}}
	cmd := &cobra.Command{
		Use:   o.name,
		Short: "Run the user operator of one Kafka cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.run(cmd, controller.CacheOptions(o.cluster), o.concurrency, o.addController)
		},
	}
	flags := cmd.Flags()
	o.addFlags(flags, "users")
	flags.BoolVar(&o.pkcs12, "pkcs12", true, "write PKCS#12 stores beside the PEM keys and certificates of users")
	flags.StringVar(&o.featureGates, "feature-gates", "", featureGatesUsage)
	flags.IntVar(&o.concurrency, "concurrent-reconciles", 8, "users reconciled at the same time")
	flags.StringVar(&o.secretPrefix, "secret-prefix", "", "prefix of the names of users' Secrets")
	flags.IntVar(&o.reissueRate, "reissue-rate", 10, "certificates in use that are reissued in a second, after a change of the clients CA")
	return cmd
}

func (o *userOperatorOptions) complete() error {
	if err := o.clusterOperator.complete(entityoperator.Lease); err != nil {
		return err
	}
	if o.reissueRate < 1 {
		return errReissueRate
	}
	return nil
}

func (o *userOperatorOptions) addController(mgr watches.Manager, serverClock *kube.ServerClock) error {
	figures := controller.NewMetrics(o.cluster)
	if err := register(figures, clockFigure(serverClock)); err != nil {
		return err
	}
	source, err := o.beside.credentials(mgr, controller.StoredCredentials(mgr.GetAPIReader(), o.cluster))
	if err != nil {
		return err
	}
	kafka, err := admin.Open(controller.Connection(o.cluster, source, clock.RealClock{}))
	if err != nil {
		return fmt.Errorf("preparing a client of Kafka: %w", err)
	}
	gates, err := gatesOf(o.featureGates)
	if err != nil {
		return err
	}
	watched, err := o.certificates(mgr)
	if err != nil {
		return err
	}
	issuers := newUserCertManager(watched, o.cluster, gates.CertManagerCaType)
	operator := controller.New(controller.Options{
		Kafka: kafka, Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("keyturn-user-operator"), Log: mgr.GetLogger(), Clock: clock.RealClock{}, Ahead: serverClock.Ahead,
		Cluster: o.cluster, Stores: stores(o.pkcs12), Metrics: figures, Issuers: issuers, Gates: gates, ReissueRate: o.reissueRate, SecretPrefix: o.secretPrefix,
		Watches: mgr.Watches,
	})
	issuers.changed = operator.CertificateChanged
	return operator.SetupWithManager(mgr)
}

// certificates are those of cert-manager that users have. Beside the nodes the process has rights in its namespace alone, and
// definitions are in none.
func (o *userOperatorOptions) certificates(mgr ctrl.Manager) (certmanager.WatchOptions, error) {
	options, err := watchOptions(mgr, []string{o.cluster.Namespace})
	if o.beside.certificate != "" {
		options.Metadata = nil
	}
	return options, err
}
