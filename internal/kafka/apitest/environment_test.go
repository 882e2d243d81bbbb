package apitest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
)

// apiServer is the connection that all tests of the package share. Each test has
// a namespace of its own. asOperator is the same with the rights that the chart
// gives to the operator, and no others.
var (
	apiServer  *rest.Config
	asOperator *rest.Config
	rights     sync.Once
)

// operatorRights installs the operator's rights with the first test.
func operatorRights(t *testing.T) *rest.Config {
	t.Helper()
	rights.Do(func() {
		asOperator = chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.ClusterWide)
	})
	return asOperator
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "starting an API server: %v\n(KUBEBUILDER_ASSETS names the directory with kube-apiserver and etcd; make api-test sets it)\n", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintf(os.Stderr, "stopping the API server: %v\n", err)
		}
	}()
	// The API server is this process's own: nobody else is slowed down.
	config.QPS, config.Burst = -1, -1
	apiServer = config
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
