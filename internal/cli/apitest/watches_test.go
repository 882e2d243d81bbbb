package apitest

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/access/binding"
	access "github.com/keyturn/keyturn/internal/access/controller"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	etcd "github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/freeport"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	kafka "github.com/keyturn/keyturn/internal/kafka/controller"
	kafkametrics "github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
	user "github.com/keyturn/keyturn/internal/user/controller"
)

// operator is one of the four, without objects, and a resource that it cannot do without.
type operator struct {
	file, resource string
	options        manager.Options
	setUp          func(mgr ctrl.Manager) error
}

func operators() map[string]operator {
	ofUsers := types.NamespacedName{Namespace: "default", Name: "my-cluster"}
	return map[string]operator{
		"cluster operator": {chartstest.ClusterWide, "persistentvolumeclaims", manager.Options{Cache: kafka.CacheOptions(nil), Client: kafka.ClientOptions()}, func(mgr ctrl.Manager) error {
			return kafka.New(kafka.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Metrics: kafkametrics.New()}).SetupWithManager(mgr)
		}},
		"user operator": {chartstest.UserOperator, "secrets", manager.Options{Cache: user.CacheOptions(ofUsers)}, func(mgr ctrl.Manager) error {
			return user.New(user.Options{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(100), Log: logr.Discard(), Clock: clock.RealClock{},
				Cluster: ofUsers, Metrics: user.NewMetrics(ofUsers), Kafka: adminfake.NewUsers(), Issuers: noIssuers{}, ReissueRate: 1,
			}).SetupWithManager(mgr)
		}},
		"access operator": {chartstest.AccessOperator, "kafkaaccesses", manager.Options{Cache: access.CacheOptions(nil)}, func(mgr ctrl.Manager) error {
			return access.New(binding.Public(), access.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr)
		}},
		"etcd operator": {chartstest.EtcdOperatorAccess, "etcdaccesses", manager.Options{Cache: etcd.CacheOptions("default", nil)}, func(mgr ctrl.Manager) error {
			return etcd.New(etcd.Options{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(100), Log: logr.Discard(), Clock: clock.RealClock{},
				Namespace: "default", GrantsAccess: true, Metrics: etcd.NewMetrics(), Attestor: unasked{},
			}).SetupWithManager(mgr)
		}},
	}
}

// supervised is an operator whose rights the test grants and takes away.
type supervised struct {
	operator
	*chartstest.Limited

	t       *testing.T
	clock   *clocktesting.FakeClock
	address string
}

func newSupervised(t *testing.T, o *operator) *supervised {
	t.Helper()
	admin := kubetest.Connect(t, environment.Config)
	limited := chartstest.Limit(t, admin, environment.Config, filepath.Join("..", "..", ".."), o.file, "watching-"+o.resource)
	return &supervised{operator: *o, Limited: limited, t: t, clock: clocktesting.NewFakeClock(time.Now())}
}

// noIssuers is a cert-manager that receives no requests.
type noIssuers struct{ user.Issuers }

func (noIssuers) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// unasked tests no admission policy, as there are no pods.
type unasked struct{}

func (unasked) Verdict(context.Context, ...*corev1.Pod) attestation.Verdict {
	return attestation.Verdict{}
}

// newScheme has all kinds that operators watch.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return kubetest.Scheme(t, kafkav1.AddToScheme, kafkav1beta2.AddToScheme, podsetv1.AddToScheme, accessv1alpha1.AddToScheme,
		etcdv1beta2.AddToScheme, keyturnv1alpha1.AddToScheme)
}

// start runs the operator with its watches, and returns how it ends and what ends it.
func (s *supervised) start(syncing time.Duration) (ended <-chan error, stop func()) {
	s.t.Helper()
	s.address = freeport.Address(s.t)
	options := s.options
	options.Scheme, options.Logger, options.Metrics, options.HealthProbeBindAddress = newScheme(s.t), logr.Discard(), metricsserver.Options{BindAddress: "0"}, s.address
	options.Controller = config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: syncing}
	mgr, err := watches.NewManager(rest.CopyConfig(s.Config), &options, watches.NewObserver(s.clock))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.setUp(mgr); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	result := make(chan error, 1)
	go func() { result <- mgr.Start(ctx) }()
	return result, stop
}

func (s *supervised) await(what string, holds wait.ConditionWithContextFunc) {
	s.t.Helper()
	if err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, holds); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// awaitReady lets time pass until /readyz/watches has the code, and an answer that contains the text.
func (s *supervised) awaitReady(code int, text string) {
	s.t.Helper()
	s.await("/readyz/watches answers "+http.StatusText(code)+text, func(ctx context.Context) (bool, error) {
		s.Pass(s.clock)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/readyz/watches", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		answer, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == code && strings.Contains(string(answer), text), response.Body.Close()
	})
}

func TestEachOperatorNamesTheRightThatItsWatchesLack(t *testing.T) {
	t.Parallel()
	for name, test := range operators() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, missing := newSupervised(t, &test), "list and watch on "+test.resource
			s.Allow(s.resource, "list", "watch")
			ended, stop := s.start(10 * time.Second)
			defer stop()
			s.awaitReady(http.StatusInternalServerError, missing)
			if err := <-ended; err == nil || !strings.Contains(err.Error(), missing) {
				t.Errorf("the start ends with %v", err)
			}
			s.Allow("")
			ended, stop = s.start(time.Minute)
			defer stop()
			s.await("it is watched", func(context.Context) (bool, error) { return s.Watches(s.resource), nil })
			s.awaitReady(http.StatusOK, "")
			s.Allow(s.resource, "list", "watch")
			s.awaitReady(http.StatusInternalServerError, missing)
			s.Allow("")
			s.awaitReady(http.StatusOK, "")
			stop()
			if err := <-ended; err != nil {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
