package cli

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/topic/controller"
)

// topicOperatorOptions are the flags of the topic operator.
type topicOperatorOptions struct {
	process processOptions
	cluster types.NamespacedName
	beside  besideOptions
}

func newTopicOperatorCommand() *cobra.Command {
	o := topicOperatorOptions{beside: besideOptions{process: agent.TopicOperator}}
	cmd := &cobra.Command{
		Use:   "topic-operator",
		Short: "Run the topic operator of one Kafka cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd)
		},
	}
	flags := cmd.Flags()
	o.process.addFlags(flags, "")
	flags.Lookup("leader-election-id").Usage += "; empty means <cluster>-topic-operator"
	flags.StringVar(&o.cluster.Name, "cluster", "", "Kafka cluster whose topics are looked after")
	flags.StringVar(&o.cluster.Namespace, "namespace", "", "namespace of the Kafka cluster and of its topics")
	o.beside.addFlags(flags)
	return cmd
}

func (o *topicOperatorOptions) complete() error {
	if o.cluster.Name == "" {
		return missingFlagError("cluster")
	}
	if o.cluster.Namespace == "" {
		return missingFlagError("namespace")
	}
	if o.process.leaderElectionID == "" {
		o.process.leaderElectionID = entityoperator.TopicLease(o.cluster.Name)
	}
	if o.process.leaderElectionNS == "" {
		o.process.leaderElectionNS = o.cluster.Namespace
	}
	return nil
}

func (o *topicOperatorOptions) run(ctx context.Context, cmd *cobra.Command) error {
	if err := o.complete(); err != nil {
		return err
	}
	logger, err := newLogger(cmd.ErrOrStderr(), o.process.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	// What runs at the same time bounds the load, and the API server's own fairness does.
	restConfig.QPS = -1
	serverClock := kube.NewServerClock(clock.RealClock{})
	restConfig.Wrap(serverClock.Transport)
	options := o.process.managerOptions(newScheme(), logger, controller.CacheOptions(o.cluster))
	mgr, err := newManager(restConfig, &options)
	if err != nil {
		return fmt.Errorf("preparing the topic operator: %w", err)
	}
	if err := o.addController(ctx, mgr, serverClock); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the topic operator: %w", err)
	}
	return nil
}

func (o *topicOperatorOptions) addController(ctx context.Context, mgr watches.Manager, serverClock *kube.ServerClock) error {
	figures := controller.NewMetrics(o.cluster)
	for _, collector := range []prometheus.Collector{figures, clockFigure(serverClock)} {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	source, err := o.beside.credentials(mgr, controller.StoredCredentials(mgr.GetAPIReader(), o.cluster))
	if err != nil {
		return err
	}
	kafka, err := admin.Open(controller.Connection(o.cluster, source, clock.RealClock{}))
	if err != nil {
		return fmt.Errorf("preparing a client of Kafka: %w", err)
	}
	return controller.New(controller.Options{
		Kafka: kafka, Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("keyturn-topic-operator"), Log: mgr.GetLogger(), Clock: clock.RealClock{},
		Cluster: o.cluster, Metrics: figures, Watches: mgr.Watches,
	}).SetupWithManager(ctx, mgr)
}
