package apitest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// apiServer is the connection that all tests of the package share. Each test has
// a namespace of its own.
var (
	apiServer *rest.Config
	shared    clients
	connected sync.Once
)

// clients are those of a person, who may do everything, and of the operator, with
// the rights that the chart gives to it and no others.
type clients struct {
	person, operator client.Client
}

// connect makes the clients with the first test: discovering what an API server
// serves takes longer than most tests.
func connect(t *testing.T) clients {
	t.Helper()
	connected.Do(func() {
		asOperator := chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.ClusterWide, chartstest.CertManager)
		options := client.Options{Scheme: newScheme(t)}
		var err error
		if shared.person, err = client.New(apiServer, options); err != nil {
			t.Fatal(err)
		}
		if shared.operator, err = client.New(asOperator, options); err != nil {
			t.Fatal(err)
		}
	})
	return shared
}

// atOnce is how many tests run at once for each processor, unless -parallel says
// otherwise: they wait for the API server more than they compute.
const atOnce = 3

func TestMain(m *testing.M) {
	os.Exit(kubetest.Main(func() int { return run(m) }))
}

func run(m *testing.M) int {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce*goruntime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	// Each world has a Service, and there are hundreds of worlds.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	stop, err := kubetest.Start(environment)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	apiServer = environment.Config
	// The API server is this process's own: nobody else is slowed down.
	apiServer.QPS, apiServer.Burst = -1, -1
	return m.Run()
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kafkav1.AddToScheme, podsetv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
