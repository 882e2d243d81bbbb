package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
)

// KubeconfigVariable names the Kubernetes cluster to work on.
const KubeconfigVariable = clientcmd.RecommendedConfigPathEnvVar

// owner owns the fields that people would write.
const owner = client.FieldOwner("keyturn-e2e")

// Kubernetes is the cluster that everything runs on.
type Kubernetes struct {
	client.WithWatch

	// Config reaches the API server.
	Config *rest.Config
	// Plain is the client for what has no objects, such as logs.
	Plain kubernetes.Interface
	// Root is the folder of this repository.
	Root string
}

// Connect uses the cluster that $KUBECONFIG names, with every right it gives.
func Connect() (*Kubernetes, error) {
	if os.Getenv(KubeconfigVariable) == "" {
		return nil, errors.New("$KUBECONFIG names no Kubernetes cluster; \"make bed-up\" starts one")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	// Watches and diagnostics of one program are not to be slowed down.
	config.QPS, config.Burst = -1, -1
	config.UserAgent = string(owner)
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	return &Kubernetes{WithWatch: api, Config: config, Plain: plain, Root: root}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, corev1.AddToScheme, kafkav1.AddToScheme, podsetv1.AddToScheme, accessv1alpha1.AddToScheme,
		etcdv1beta2.AddToScheme, keyturnv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering API types: %w", err)
		}
	}
	return scheme, nil
}

// findRoot finds the repository above the working directory: "go test" works in
// the folder of a package.
func findRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for folder := here; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "charts", "keyturn", "Chart.yaml")); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("finding the repository: neither %s nor a folder above it has charts/keyturn", here)
		}
	}
}
