package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/cli/build"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kafka/finalizers/removal"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/podset"
	topicmodel "github.com/keyturn/keyturn/internal/topic/model"
	usermodel "github.com/keyturn/keyturn/internal/user/model"
)

// defaultLease is the name of the Lease where the chart gives none.
const defaultLease = "keyturn-operator"

// featureGatesVariable is the environment variable that Strimzi reads feature gates from.
const featureGatesVariable = "STRIMZI_FEATURE_GATES"

const featureGatesUsage = "features to turn on or off, as +Name,-Name; empty means what " + featureGatesVariable + " says"

// operatorOptions are the flags of the operator.
type operatorOptions struct {
	kafkaImages       map[string]string
	agentImage        string
	pullPolicy        string
	pullSecrets       pullSecrets
	watchNamespaces   []string
	clusterDomain     string
	pkcs12            bool
	networkPolicies   bool
	operatorNamespace string
	operatorLabels    map[string]string
	concurrentObjects int
	featureGates      string
	gates             featuregate.Gates
	process           processOptions
}

func newOperatorCommand() *cobra.Command {
	o := operatorOptions{}
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *operatorOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringToStringVar(&o.kafkaImages, "kafka-image", nil, "image of a Kafka version, as version=image; repeat for each")
	flags.StringVar(&o.agentImage, "agent-image", "", "image with the keyturn binary that pods take their agent from: the operator's own")
	flags.StringVar(&o.pullPolicy, "image-pull-policy", "", "pull policy of the pods' images; empty leaves it to Kubernetes")
	o.pullSecrets.addFlag(flags)
	flags.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "namespaces to watch; none means all")
	flags.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "DNS domain of the Kubernetes cluster")
	flags.BoolVar(&o.pkcs12, "pkcs12", true, "write PKCS#12 trust stores beside the PEM certificates of CAs")
	flags.BoolVar(&o.networkPolicies, "network-policies", true, "write a NetworkPolicy for each Kafka cluster; switched off, those written before are deleted")
	flags.StringVar(&o.operatorNamespace, "operator-namespace", "", "namespace of the operator's pods, which network policies let in")
	flags.StringToStringVar(&o.operatorLabels, "operator-labels", nil, "labels of the operator's pods, which network policies let in, as key=value; repeat for each")
	flags.IntVar(&o.concurrentObjects, "concurrent-reconciles", 4, "Kafka clusters reconciled at the same time")
	flags.StringVar(&o.featureGates, "feature-gates", "", featureGatesUsage)
	o.process.addFlags(flags, defaultLease)
}

func (o *operatorOptions) run(cmd *cobra.Command) error {
	if err := o.complete(); err != nil {
		return err
	}
	return o.process.run(cmd, "the operator", o.managerOptions(), o.addControllers)
}

func (o *operatorOptions) complete() error {
	if len(o.kafkaImages) == 0 {
		return missingFlagError("kafka-image")
	}
	if o.agentImage == "" {
		return missingFlagError("agent-image")
	}
	if o.networkPolicies && o.operatorNamespace == "" {
		return missingFlagError("operator-namespace")
	}
	if o.networkPolicies && len(o.operatorLabels) == 0 {
		return missingFlagError("operator-labels")
	}
	if err := o.pullSecrets.read(); err != nil {
		return err
	}
	return o.readGates()
}

// readGates takes feature gates from the flag, or from the environment where the flag names none.
func (o *operatorOptions) readGates() (err error) {
	o.gates, err = gatesOf(o.featureGates)
	return err
}

// gatesOf are the feature gates of the flag, or of the environment where the flag names none.
func gatesOf(flag string) (featuregate.Gates, error) {
	source, text := "--feature-gates", flag
	if text == "" {
		source, text = featureGatesVariable, os.Getenv(featureGatesVariable)
	}
	gates, err := featuregate.Parse(text)
	if err != nil {
		return featuregate.Gates{}, fmt.Errorf("reading %s: %w", source, err)
	}
	return gates, nil
}

func (o *operatorOptions) managerOptions() *manager.Options {
	cached := controller.CacheOptions(o.watchNamespaces)
	cached.ByObject[&kafkav1.KafkaUser{}], cached.ByObject[&kafkav1.KafkaTopic{}] = removal.Cached(), removal.Cached()
	cached.ByObject[&accessv1alpha1.KafkaAccess{}], cached.ByObject[&kafkav1beta2.KafkaAccess{}] = trimmedMetadata(), trimmedMetadata()
	options := o.process.managerOptions(cached)
	options.Client = controller.ClientOptions()
	options.Controller.MaxConcurrentReconciles = o.concurrentObjects
	return options
}

// removeFinalizers starts to remove the finalizers of users and topics whose Kafka is gone. Where definitions are not installed
// with the operator there may be none of KafkaTopic, and clusters are served all the same.
func removeFinalizers(mgr watches.Manager) error {
	options := removal.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("keyturn")}
	isServed, err := mgr.Serves(kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaTopic))
	if err != nil {
		return fmt.Errorf("looking for the definition of KafkaTopic: %w", err)
	}
	kinds := []*removal.Reconciler{removal.Users(options)}
	if isServed {
		kinds = append(kinds, removal.Topics(options))
	} else {
		mgr.GetLogger().Info("there is no definition of KafkaTopic: install it and restart the operator, if there are to be KafkaTopics")
	}
	for _, kind := range kinds {
		if err := kind.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("adding controllers: %w", err)
		}
	}
	return nil
}

func (o *operatorOptions) addControllers(mgr watches.Manager, serverClock *kube.ServerClock) error {
	now := clock.RealClock{}
	pods := podset.NewReconciler(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetScheme(), now, controller.PodMaker(o.settings()))
	if err := pods.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controllers: %w", err)
	}
	if err := removeFinalizers(mgr); err != nil {
		return err
	}
	if err := reportUnattended(mgr, usermodel.Unattended(), topicmodel.Unattended(), binding.Unattended(binding.Public()), binding.Unattended(binding.Proposed())); err != nil {
		return err
	}
	figures := metrics.New()
	if err := register(figures, clockFigure(serverClock)); err != nil {
		return err
	}
	outside, err := newCertManager(mgr, o.watchNamespaces, o.gates.CertManagerCaType)
	if err != nil {
		return err
	}
	kafka := controller.New(controller.Options{
		Metrics:   figures,
		Client:    mgr.GetClient(),
		Live:      mgr.GetAPIReader(),
		Events:    mgr.GetEventRecorder("keyturn"),
		Log:       mgr.GetLogger(),
		Clock:     now,
		Ahead:     serverClock.Ahead,
		Connector: controller.NetConnector{Clock: now},
		Settings:  o.settings(),
		Stores:    stores(o.pkcs12),
		Outside:   outside,
		Watches:   mgr.Watches,

		Companions: entityoperator.Companions(stores(o.pkcs12), o.gates),
		Gates:      o.gates,
		Version:    build.Version(),
	})
	if err := kafka.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controllers: %w", err)
	}
	return nil
}

func (o *operatorOptions) settings() model.Settings {
	versions := make([]model.KafkaVersion, 0, len(o.kafkaImages))
	for _, name := range slices.Sorted(maps.Keys(o.kafkaImages)) {
		versions = append(versions, model.KafkaVersion{Name: name, Image: o.kafkaImages[name]})
	}
	return model.Settings{
		Versions:        versions,
		AgentImage:      o.agentImage,
		PullPolicy:      corev1.PullPolicy(o.pullPolicy),
		PullSecrets:     o.pullSecrets.usable,
		ClusterDomain:   o.clusterDomain,
		NetworkPolicies: o.policies(),
	}
}

// policies is nil when none are to be made.
func (o *operatorOptions) policies() *model.NetworkPolicies {
	if !o.networkPolicies {
		return nil
	}
	return &model.NetworkPolicies{OperatorNamespace: o.operatorNamespace, OperatorLabels: o.operatorLabels}
}
