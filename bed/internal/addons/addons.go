package addons

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os/exec"
	"strings"
	"text/template"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

//go:embed manifests/*.yaml
var manifests embed.FS

const (
	readyLimit = 3 * time.Minute
	lookEvery  = 200 * time.Millisecond
	// manager is the name under which the bed owns the fields it applies.
	manager = "keyturn-bed"
)

// Values fills the manifests.
type Values struct {
	// CoreDNS and CertManager are the names of the images.
	CoreDNS, CertManager string
	// DNSService is the address of the cluster's name server.
	DNSService string
	// VolumeProvisioner is the name that the storage class asks for volumes.
	VolumeProvisioner string
}

// Cluster is the API server that the addons go to.
type Cluster struct {
	// Kubectl is the program that applies the manifests.
	Kubectl string
	// Kubeconfig is the administrator's.
	Kubeconfig string
}

// Apply installs the addons; definitions are directories with custom resource definitions to install first. Applying
// again changes nothing.
func (c Cluster) Apply(ctx context.Context, values Values, definitions ...string) error {
	for _, dir := range definitions {
		if err := c.apply(ctx, nil, dir); err != nil {
			return fmt.Errorf("installing the definitions in %s: %w", dir, err)
		}
	}
	rendered, err := render(values)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, rendered, "-"); err != nil {
		return fmt.Errorf("installing the name server, the storage class and cert-manager: %w", err)
	}
	return nil
}

// render fills every manifest and joins them into one stream.
func render(values Values) ([]byte, error) {
	parsed, err := template.New("").Option("missingkey=error").ParseFS(manifests, "manifests/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	var stream bytes.Buffer
	for _, name := range []string{"storage.yaml", "coredns.yaml", "certmanager.yaml"} {
		stream.WriteString("---\n")
		if err := parsed.ExecuteTemplate(&stream, name, values); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", name, err)
		}
	}
	return stream.Bytes(), nil
}

func (c Cluster) apply(ctx context.Context, input []byte, source string) error {
	command := exec.CommandContext(ctx, c.Kubectl, "--kubeconfig", c.Kubeconfig, "apply",
		"--server-side", "--force-conflicts", "--field-manager", manager, "-f", source)
	command.Stdin = bytes.NewReader(input)
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said)))
	}
	return nil
}

// workload is a deployment that an addon consists of.
type workload struct{ namespace, name string }

func waitedFor() []workload {
	return []workload{{"kube-system", "coredns"}, {"cert-manager", "cert-manager"}}
}

// Wait returns when the node takes pods and the addons' pods are ready; tell hears of each as it happens.
func (c Cluster) Wait(ctx context.Context, node string, tell func(string)) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := until(ctx, "the node", func(ctx context.Context) (bool, error) { return nodeReady(ctx, client, node) }); err != nil {
		return err
	}
	tell("node ready")
	for _, w := range waitedFor() {
		if err := until(ctx, w.name, func(ctx context.Context) (bool, error) { return available(ctx, client, w) }); err != nil {
			return err
		}
		tell(w.name + " ready")
	}
	return nil
}

// Installed says whether the node takes pods and all the addons run.
func (c Cluster) Installed(ctx context.Context, node string) (bool, error) {
	client, err := c.client()
	if err != nil {
		return false, err
	}
	if ready, err := nodeReady(ctx, client, node); err != nil || !ready {
		return false, err
	}
	for _, w := range waitedFor() {
		if running, err := available(ctx, client, w); err != nil || !running {
			return false, err
		}
	}
	return true, nil
}

func (c Cluster) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.Kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return client, nil
}

// until looks again and again; an answer that fails counts as not yet, and the last one is told when time is up.
func until(ctx context.Context, what string, look func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, lookEvery, readyLimit, true, func(ctx context.Context) (bool, error) {
		var done bool
		done, last = look(ctx)
		return done && last == nil, nil
	})
	if err != nil && last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("waiting until %s is ready: %w", what, err)
	}
	return nil
}

func nodeReady(ctx context.Context, client kubernetes.Interface, name string) (bool, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}

func available(ctx context.Context, client kubernetes.Interface, w workload) (bool, error) {
	deployment, err := client.AppsV1().Deployments(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable {
			return condition.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}
