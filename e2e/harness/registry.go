package harness

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Registry serves images to the bed, to pods with its credentials alone.
type Registry struct {
	// Repository is what the names of its images begin with.
	Repository string

	credentials []byte
	process     *exec.Cmd
	input       io.Closer
}

// PrivateRegistry starts a registry with images of the bed, such as kafka:4.3.1. Their names are others each time: containerd
// keeps what it has pulled. It serves until it is closed, also after the context has ended.
func (k *Kubernetes) PrivateRegistry(ctx context.Context, images ...string) (*Registry, error) {
	under := "private-" + strings.ToLower(rand.Text()[:8])
	process := exec.CommandContext(context.WithoutCancel(ctx), "go", append([]string{"run", "-C", "bed", ".", "registry", "--under", under}, images...)...)
	process.Dir = k.Root
	var complaints strings.Builder
	process.Stderr = &complaints
	input, err := process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	r := &Registry{Repository: "localhost:5000/" + under, process: process, input: input}
	if r.credentials, err = bufio.NewReader(output).ReadBytes('\n'); err != nil {
		return nil, fmt.Errorf("starting the registry: %w\n%s", errors.Join(err, r.Close()), complaints.String())
	}
	return r, nil
}

// Secret is a pull Secret with the credentials of the registry.
func (r *Registry) Secret(meta metav1.ObjectMeta) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: r.credentials}}
}

// Close ends the registry.
func (r *Registry) Close() error {
	if err := errors.Join(r.input.Close(), r.process.Wait()); err != nil {
		return fmt.Errorf("ending the registry: %w", err)
	}
	return nil
}
