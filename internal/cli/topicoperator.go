package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/topic/controller"
)

// topicOperatorOptions are the flags of the topic operator.
type topicOperatorOptions struct{ clusterOperator }

func newTopicOperatorCommand() *cobra.Command {
	o := topicOperatorOptions{clusterOperator{name: "topic-operator", beside: besideOptions{process: agent.TopicOperator}}}
	cmd := &cobra.Command{
		Use:   o.name,
		Short: "Run the topic operator of one Kafka cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(entityoperator.TopicLease); err != nil {
				return err
			}
			return o.run(cmd, controller.CacheOptions(o.cluster), controller.Concurrency, func(mgr watches.Manager, serverClock *kube.ServerClock) error {
				return o.addController(cmd.Context(), mgr, serverClock)
			})
		},
	}
	o.addFlags(cmd.Flags(), "topics")
	return cmd
}

func (o *topicOperatorOptions) addController(ctx context.Context, mgr watches.Manager, serverClock *kube.ServerClock) error {
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
	return controller.New(controller.Options{
		Kafka: kafka, Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("keyturn-topic-operator"), Log: mgr.GetLogger(), Clock: clock.RealClock{},
		Cluster: o.cluster, Metrics: figures, Watches: mgr.Watches,
	}).SetupWithManager(ctx, mgr)
}
