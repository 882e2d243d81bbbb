package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/release"
)

// Environment variables that say what to install.
const (
	// ImageVariable is repository:tag of the operator's image, in a registry that
	// the cluster reaches. The bed needs none: it gets the programs of bin.
	ImageVariable = "KEYTURN_IMAGE"
	// KafkaImagesVariable lists version=image, separated by commas.
	KafkaImagesVariable = "KEYTURN_KAFKA_IMAGES"
	// InstallVariable set to "skip" takes the operator that is there.
	InstallVariable = "KEYTURN_INSTALL"
)

// Where Keyturn is installed.
const (
	OperatorNamespace = "keyturn"
	// DemoNamespace has the cluster that the demo leaves running.
	DemoNamespace      = "keyturn-demo"
	operatorName       = "keyturn"
	bedNode            = "keyturn-bed"
	bedServer          = "https://10.243.0.2:6443"
	bedImage           = "keyturn.dev/keyturn:dev"
	bedKafkaRepository = "keyturn.dev/kafka"
	kafkaRepository    = "apache/kafka"
)

// The programs of the operator's image.
const (
	OperatorProgram = "keyturn"
	AgentProgram    = "keyturn-agent"
)

// Programs are those of the operator's image, by their names in the folder bin.
func Programs() []string { return []string{OperatorProgram, AgentProgram} }

// images are what is to be run, and what tells two contents of one tag apart.
type images struct {
	operator string
	kafka    string
	content  string
}

// Install installs Keyturn with its chart, or upgrades it. Pods of an operator
// with other content are replaced, even if the image's name is the same.
func (k *Kubernetes) Install(ctx context.Context, journal *Journal) error {
	return k.InstallWith(ctx, journal, nil)
}

// InstallWith is Install with further values of the chart. Those of an earlier
// installation are not kept.
func (k *Kubernetes) InstallWith(ctx context.Context, journal *Journal, further map[string]any) error {
	if os.Getenv(InstallVariable) == "skip" {
		journal.Say("taking the operator that is installed")
		return nil
	}
	var chosen images
	err := journal.Step("images are where the cluster finds them", func() error {
		var err error
		chosen, err = k.images(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return journal.Step("Keyturn installed with its Helm chart", func() error { return k.helm(ctx, chosen, further) })
}

// images takes those that the user names; on the bed it packs what was built.
func (k *Kubernetes) images(ctx context.Context) (images, error) {
	named := images{operator: os.Getenv(ImageVariable), kafka: kafkaImages(kafkaRepository)}
	bed, err := k.OnBed(ctx)
	if err != nil {
		return images{}, err
	}
	if bed {
		named.kafka = kafkaImages(bedKafkaRepository)
	}
	if kafka := os.Getenv(KafkaImagesVariable); kafka != "" {
		named.kafka = kafka
	}
	switch {
	case named.operator != "":
		return named, nil
	case bed:
		named.operator = bedImage
		named.content, err = k.packForBed(ctx)
		return named, err
	default:
		return images{}, fmt.Errorf("$%s must name the operator's image as repository:tag, in a registry that this cluster reaches: make image writes it, docs/install.md says how to push it", ImageVariable)
	}
}

// kafkaImages are those of all versions of Kafka in a repository.
func kafkaImages(repository string) string {
	var list []string
	for _, of := range release.All() {
		for _, version := range of.Patches {
			list = append(list, version+"="+repository+":"+version)
		}
	}
	return strings.Join(list, ",")
}

// LoadKafka gives the bed images of further versions of Kafka. Other clusters pull them.
func (k *Kubernetes) LoadKafka(ctx context.Context, versions ...string) error {
	if bed, err := k.OnBed(ctx); err != nil || !bed {
		return err
	}
	return k.runGo(ctx, nil, append([]string{"run", "-C", "bed", ".", "image", "kafka"}, versions...)...)
}

// OnBed says whether the cluster is the bed of this repository: another one may have a node of that name.
func (k *Kubernetes) OnBed(ctx context.Context) (bool, error) {
	if k.Config.Host != bedServer {
		return false, nil
	}
	err := k.Get(ctx, types.NamespacedName{Name: bedNode}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for node %s: %w", bedNode, err)
	}
	return true, nil
}

// packForBed loads the programs of bin as an image and returns their digest.
func (k *Kubernetes) packForBed(ctx context.Context) (string, error) {
	programs, digest := filepath.Join(k.Root, "bin"), sha256.New()
	for _, program := range Programs() {
		data, err := os.ReadFile(filepath.Join(programs, program))
		if err != nil {
			return "", fmt.Errorf("packing the operator, which \"make build\" builds: %w", err)
		}
		own := sha256.Sum256(data)
		digest.Write(own[:])
	}
	return hex.EncodeToString(digest.Sum(nil)), k.runGo(ctx, nil, "run", "-C", "bed", ".", "image", "keyturn", "--programs", programs)
}

// helm installs or upgrades the release. It takes over what somebody applied
// without Helm.
func (k *Kubernetes) helm(ctx context.Context, chosen images, further map[string]any) error {
	values, err := chosen.values(further)
	if err != nil {
		return err
	}
	if err := k.giveUpPending(ctx); err != nil {
		return err
	}
	return k.runGo(ctx, values, "tool", "-modfile=tools/go.mod", "helm", "upgrade", operatorName, "charts/keyturn",
		"--install", "--namespace", OperatorNamespace, "--create-namespace", "--values", "-",
		"--take-ownership", "--force-conflicts", "--wait", "--timeout", "3m")
}

// giveUpPending forgets an installation in whose middle Helm was killed: it would refuse
// every other one for ever.
func (k *Kubernetes) giveUpPending(ctx context.Context) error {
	pending, err := labels.Parse("owner=helm,status in (pending-install,pending-upgrade,pending-rollback),name=" + operatorName)
	if err != nil {
		return fmt.Errorf("selecting what Helm has not finished: %w", err)
	}
	if err := k.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(OperatorNamespace), client.MatchingLabelsSelector{Selector: pending}); err != nil {
		return fmt.Errorf("forgetting what Helm has not finished: %w", err)
	}
	return nil
}

// values are those of the chart, as JSON.
func (i images) values(further map[string]any) ([]byte, error) {
	colon := strings.LastIndex(i.operator, ":")
	if colon < strings.LastIndex(i.operator, "/") || colon < 0 {
		return nil, fmt.Errorf("image %q of the operator is not repository:tag", i.operator)
	}
	kafka := []map[string]string{}
	for entry := range strings.SplitSeq(i.kafka, ",") {
		version, image, found := strings.Cut(entry, "=")
		if !found {
			return nil, fmt.Errorf("Kafka image %q is not version=image", entry)
		}
		kafka = append(kafka, map[string]string{"version": version, "image": image})
	}
	values := map[string]any{
		"image":       map[string]string{"repository": i.operator[:colon], "tag": i.operator[colon+1:], "pullPolicy": "IfNotPresent"},
		"kafkaImages": kafka,
	}
	if i.content != "" {
		values["podAnnotations"] = map[string]string{"keyturn.dev/content": i.content}
	}
	maps.Copy(values, further)
	data, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding values of the chart: %w", err)
	}
	return data, nil
}

// runGo runs go in the repository; what it says is shown when it fails.
func (k *Kubernetes) runGo(ctx context.Context, input []byte, args ...string) error {
	_, err := k.outputOfGo(ctx, input, args...)
	return err
}

// outputOfGo is what a program prints to its standard output.
func (k *Kubernetes) outputOfGo(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	var said, printed bytes.Buffer
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Stdin = k.Root, bytes.NewReader(input)
	command.Stdout, command.Stderr = io.MultiWriter(&printed, &said), &said
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("running go %s: %w\n%s", strings.Join(args, " "), err, said.Bytes())
	}
	return printed.Bytes(), nil
}

// OperatorImage is the image that the operator runs, which has every program of
// Keyturn.
func (k *Kubernetes) OperatorImage(ctx context.Context) (string, error) {
	deployment := &appsv1.Deployment{}
	if err := k.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: operatorName}, deployment); err != nil {
		return "", fmt.Errorf("finding the image of the operator: %w", err)
	}
	return deployment.Spec.Template.Spec.Containers[0].Image, nil
}

// errNoOperator is a cluster without Keyturn.
var errNoOperator = errors.New("no pod of Keyturn is there")

// OperatorPods are the operator's pods.
func (k *Kubernetes) OperatorPods(ctx context.Context) ([]corev1.Pod, error) {
	return k.ProcessPods(ctx, operatorName)
}

// ProcessPods are the pods of a process of Keyturn, by the name of its Deployment.
func (k *Kubernetes) ProcessPods(ctx context.Context, name string) ([]corev1.Pod, error) {
	deployment := &appsv1.Deployment{}
	key := types.NamespacedName{Namespace: OperatorNamespace, Name: name}
	if err := k.Get(ctx, key, deployment); err != nil {
		return nil, fmt.Errorf("finding Deployment %s of Keyturn: %w", name, err)
	}
	pods := &corev1.PodList{}
	if err := k.List(ctx, pods, selected(OperatorNamespace, deployment.Spec.Selector.MatchLabels)...); err != nil {
		return nil, fmt.Errorf("listing pods of Deployment %s: %w", name, err)
	}
	if len(pods.Items) == 0 {
		return nil, errNoOperator
	}
	return pods.Items, nil
}
