package cli

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// operatorNamespaceVariable may name the operator's namespace instead of the flag.
const operatorNamespaceVariable = "POD_NAMESPACE"

// etcdOperatorOptions are the flags of the etcd operator.
type etcdOperatorOptions struct {
	agentImage      string
	repository      string
	pullPolicy      string
	pullSecrets     pullSecrets
	clusterDomain   string
	namespace       string
	serviceAccount  string
	policy          string
	watchNamespaces []string
	concurrency     int
	pki             bool
	access          bool
	process         processOptions
}

func newEtcdOperatorCommand() *cobra.Command {
	o := etcdOperatorOptions{}
	cmd := &cobra.Command{
		Use:   "etcd-operator",
		Short: "Run the operator of EtcdCluster resources",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *etcdOperatorOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.agentImage, "agent-image", "", "image with the keyturn binary that pods take their agent from: the operator's own")
	flags.StringVar(&o.repository, repositoryFlag, model.DefaultRepository, "repository of the images of etcd where an EtcdCluster has none; the tag is v and the version")
	flags.StringVar(&o.pullPolicy, "image-pull-policy", "", "pull policy of the pods' images; empty leaves it to Kubernetes")
	o.pullSecrets.addFlag(flags)
	flags.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "DNS domain of the Kubernetes cluster")
	flags.StringVar(&o.namespace, "operator-namespace", os.Getenv(operatorNamespaceVariable), "namespace of the operator, which holds the Secrets of CAs")
	flags.StringVar(&o.serviceAccount, "service-account", model.Manager, "ServiceAccount of the operator, in its namespace")
	flags.StringVar(&o.policy, "attestation-policy", "keyturn-etcd-members", "ValidatingAdmissionPolicy for pods of members, and its binding")
	flags.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "namespaces to watch; none means all")
	flags.IntVar(&o.concurrency, "concurrent-reconciles", 4, "etcd clusters reconciled at the same time")
	flags.BoolVar(&o.pki, "pki", false, "let the EtcdPKI decide who signs the operator's CAs; without it they are self-signed")
	flags.BoolVar(&o.access, "access", false, "write the Secrets of EtcdAccesses")
	o.process.addFlags(flags, model.Manager)
}

func (o *etcdOperatorOptions) complete() error {
	if o.agentImage == "" {
		return missingFlagError("agent-image")
	}
	if o.namespace == "" {
		return missingFlagError("operator-namespace")
	}
	if !repository().MatchString(o.repository) {
		return repositoryError(o.repository)
	}
	return o.pullSecrets.read()
}

const repositoryFlag = "image-repository"

// repository is the name of an image without a tag or digest.
func repository() *regexp.Regexp {
	return regexp.MustCompile(`^([^\s:@/]+(:[0-9]+)?/)?[^\s:@]*[^\s:@/]$`)
}

// repositoryError is the value of a flag that is no repository.
type repositoryError string

func (e repositoryError) Error() string {
	return fmt.Sprintf("reading --%s: %q is not a repository: give the name of the image without a tag or digest, such as %s", repositoryFlag, string(e), model.DefaultRepository)
}

func (o *etcdOperatorOptions) run(cmd *cobra.Command) error {
	if err := o.complete(); err != nil {
		return err
	}
	return o.process.run(cmd, "the etcd operator", o.managerOptions(), o.addController)
}

func (o *etcdOperatorOptions) managerOptions() *manager.Options {
	options := o.process.managerOptions(controller.CacheOptions(o.namespace, o.watchNamespaces))
	options.Controller.MaxConcurrentReconciles = o.concurrency
	return options
}

func (o *etcdOperatorOptions) addController(mgr watches.Manager, serverClock *kube.ServerClock) error {
	if !o.access {
		if err := reportUnattended(mgr, model.UnattendedAccess()); err != nil {
			return err
		}
	}
	figures := controller.NewMetrics()
	if err := register(figures, clockFigure(serverClock)); err != nil {
		return err
	}
	policy, err := attestation.Expect(attestation.Settings{
		Name: o.policy, OperatorUser: "system:serviceaccount:" + o.namespace + ":" + o.serviceAccount, Namespaces: o.watchNamespaces,
	})
	if err != nil {
		return err
	}
	return controller.New(controller.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder(model.Manager), Log: mgr.GetLogger(), Clock: clock.RealClock{}, Ahead: serverClock.Ahead,
		Dial: admin.New, Agents: controller.Agents(clock.RealClock{}), Network: admin.Direct{}, Namespace: o.namespace, Watched: o.watchNamespaces, ReadsPKI: o.pki, GrantsAccess: o.access, Metrics: figures, Watches: mgr.Watches,
		Attestor: &controller.PolicyTester{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Expected: policy, Clock: clock.RealClock{}, Metrics: figures,
		},
		Settings: model.Settings{
			AgentImage: o.agentImage, Repository: o.repository, PullPolicy: corev1.PullPolicy(o.pullPolicy), PullSecrets: o.pullSecrets.usable,
			ClusterDomain: o.clusterDomain, OperatorNamespace: o.namespace,
		},
	}).SetupWithManager(mgr)
}
