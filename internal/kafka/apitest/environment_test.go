package apitest

import (
	"flag"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
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
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce*goruntime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
		flag.Parse()
		apiServer = server.Config
		return m.Run()
	}))
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return kubetest.Scheme(t, kafkav1.AddToScheme, podsetv1.AddToScheme)
}
