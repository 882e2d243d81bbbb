package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nothing is an image that no cluster has.
const nothing = "keyturn.dev/nothing:at-all"

// HoldDown ends the server of a node's pod and keeps it from starting until it is
// asked back: the pod stays, with an image for its container that does not exist.
// Coming back waits until the pod is ready.
func (k Kafka) HoldDown(ctx context.Context, name string) (back func() error, err error) {
	pod := &corev1.Pod{}
	if err := k.Kube.Get(ctx, k.Key(name), pod); err != nil {
		return nil, fmt.Errorf("holding down %s: %w", name, err)
	}
	image := ""
	for _, container := range pod.Spec.Containers {
		if container.Name == kafkaContainer {
			image = container.Image
		}
	}
	if err := k.setImage(ctx, name, nothing); err != nil {
		return nil, err
	}
	err = k.UntilPods(ctx, "go down", func(pods map[string]*corev1.Pod) bool {
		return pods[name] != nil && pods[name].UID == pod.UID && !podReady(pods[name]) && !running(pods[name])
	})
	return func() error {
		if err := k.setImage(ctx, name, image); err != nil {
			return err
		}
		return k.UntilPods(ctx, "come back", func(pods map[string]*corev1.Pod) bool {
			return pods[name] != nil && podReady(pods[name])
		})
	}, err
}

// kafkaContainer runs the server.
const kafkaContainer = "kafka"

func running(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == kafkaContainer {
			return status.State.Running != nil
		}
	}
	return false
}

// setImage changes what Kubernetes lets anybody change of a pod.
func (k Kafka) setImage(ctx context.Context, name, image string) error {
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"image":%q}]}}`, kafkaContainer, image)
	pod := &corev1.Pod{ObjectMeta: k.Meta(name)}
	if err := k.Kube.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), owner); err != nil {
		return fmt.Errorf("changing the image of pod %s: %w", name, err)
	}
	return nil
}

// leaseName is the operator's.
const leaseName = "keyturn-operator"

// UntilLed waits until a live pod of the operator holds its Lease: one that works.
func (k *Kubernetes) UntilLed(ctx context.Context) error {
	return Poll(ctx, func() (bool, error) {
		lease := &coordinationv1.Lease{}
		if err := k.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: leaseName}, lease); err != nil {
			return false, fmt.Errorf("reading the operator's Lease: %w", err)
		}
		pods, err := k.OperatorPods(ctx)
		if errors.Is(err, errNoOperator) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for i := range pods {
			held := lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, pods[i].Name+"_")
			if held && podReady(&pods[i]) {
				return true, nil
			}
		}
		return false, nil
	})
}

// errNoKubelet is a machine on which the bed does not run.
var errNoKubelet = errors.New("no process of this machine is a kubelet")

// StopKubelet stops the bed's kubelet in its tracks, until it is resumed.
func StopKubelet() (resume func() error, err error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, fmt.Errorf("looking for the kubelet: %w", err)
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != "kubelet" {
			continue // a process that has ended meanwhile, or another one
		}
		process, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, fmt.Errorf("looking for the kubelet: %w", err)
		}
		if err := syscall.Kill(process, syscall.SIGSTOP); err != nil {
			return nil, fmt.Errorf("stopping the kubelet: %w", err)
		}
		return func() error {
			if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
				return fmt.Errorf("resuming the kubelet: %w", err)
			}
			return nil
		}, nil
	}
	return nil, errNoKubelet
}
