package cli

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// reconcileTimeout bounds one reconcile of one object: a cluster that hangs must
// not keep the others waiting.
const reconcileTimeout = 2 * time.Minute

// processOptions are the flags that all processes with controllers have.
type processOptions struct {
	leaderElect      bool
	leaderElectionNS string
	leaderElectionID string
	metricsAddress   string
	probeAddress     string
	logLevel         string
}

// addFlags adds the flags; lease is the Lease that the process uses unless a flag names another.
func (o *processOptions) addFlags(flags *pflag.FlagSet, lease string) {
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "act only as the leader of all replicas")
	flags.StringVar(&o.leaderElectionNS, "leader-election-namespace", "", "namespace of the Lease; empty means the pod's own")
	flags.StringVar(&o.leaderElectionID, "leader-election-id", lease, "name of the Lease; of all operators that share it, one acts")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of the metrics endpoint; 0 switches it off")
	flags.StringVar(&o.probeAddress, "probe-address", ":8081", "address of the health endpoint")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
}

// managerOptions are those of a manager that caches what the cache options say.
func (o *processOptions) managerOptions(caching cache.Options) *manager.Options {
	return &manager.Options{
		Scheme: newScheme(),
		Cache:  caching,
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress,
		},
		HealthProbeBindAddress:  o.probeAddress,
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        o.leaderElectionID,
		LeaderElectionNamespace: o.leaderElectionNS,
		// The next leader need not wait for the Lease of one that stopped.
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{ReconciliationTimeout: reconcileTimeout},
	}
}

// run runs the controllers that are added until the context of the command ends. Errors name the process.
func (o *processOptions) run(cmd *cobra.Command, process string, options *manager.Options, add func(watches.Manager, *kube.ServerClock) error) error {
	logger, err := newLogger(cmd.ErrOrStderr(), o.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	// It does not limit requests: what runs at the same time bounds the load, and the API server's own fairness does.
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	serverClock := kube.NewServerClock(clock.RealClock{})
	restConfig.Wrap(serverClock.Transport)
	options.Logger = logger
	mgr, err := newManager(restConfig, options)
	if err != nil {
		return fmt.Errorf("preparing %s: %w", process, err)
	}
	if err := add(mgr, serverClock); err != nil {
		return err
	}
	if err := mgr.Start(cmd.Context()); err != nil {
		return fmt.Errorf("running %s: %w", process, err)
	}
	return nil
}

// newManager returns a manager that tells by /healthz whether the process is alive, and by /readyz, by a metric and by the
// error with which it ends what the API server does not let it watch.
func newManager(restConfig *rest.Config, options *manager.Options) (watches.Manager, error) {
	observer := watches.NewObserver(clock.RealClock{}, certmanager.Group)
	mgr, err := watches.NewManager(restConfig, options, observer)
	if err != nil {
		return mgr, err
	}
	for _, probe := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := probe("ping", healthz.Ping); err != nil {
			return mgr, fmt.Errorf("adding health checks: %w", err)
		}
	}
	return mgr, register(observer)
}

// register adds metrics to those of the process.
func register(collectors ...prometheus.Collector) error {
	for _, collector := range collectors {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// clockFigure is how much the clock of the process is ahead.
func clockFigure(serverClock *kube.ServerClock) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "keyturn_operator_clock_ahead_seconds",
		Help: "How much the operator's clock is ahead of the API server's; negative when it is behind.",
	}, func() float64 { return serverClock.Ahead().Seconds() })
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kafkav1.AddToScheme, kafkav1beta2.AddToScheme, podsetv1.AddToScheme, accessv1alpha1.AddToScheme,
		etcdv1beta2.AddToScheme, keyturnv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("registering API types: %v", err))
		}
	}
	return scheme
}

// newLogger writes JSON lines of the level and above.
func newLogger(out interface{ Write([]byte) (int, error) }, level string) (logr.Logger, error) {
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("reading --log-level: %w", err)
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: threshold})), nil
}

// missingFlagError is the name of a flag that the process needs.
type missingFlagError string

func (e missingFlagError) Error() string {
	return fmt.Sprintf("--%s is missing: the chart sets it, see docs/install.md", string(e))
}

// stores is what the flag --pkcs12 asks for.
func stores(pkcs12 bool) authority.StoreGeneration {
	if pkcs12 {
		return authority.WithStores
	}
	return authority.WithoutStores
}
