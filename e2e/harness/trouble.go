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
	return k.untilLed(ctx, operatorName, leaseName)
}

// UntilEtcdLed is UntilLed of the process that runs EtcdClusters.
func (k *Kubernetes) UntilEtcdLed(ctx context.Context) error {
	return k.untilLed(ctx, EtcdOperator, EtcdOperator)
}

func (k *Kubernetes) untilLed(ctx context.Context, process, leaseName string) error {
	return Poll(ctx, func() (bool, error) {
		lease := &coordinationv1.Lease{}
		if err := k.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: leaseName}, lease); err != nil {
			return false, fmt.Errorf("reading Lease %s: %w", leaseName, err)
		}
		pods, err := k.ProcessPods(ctx, process)
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

// Cordon has no pod come to any machine until it is taken back.
func (k *Kubernetes) Cordon(ctx context.Context) (uncordon func() error, err error) {
	nodes := &corev1.NodeList{}
	if err := k.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	set := func(ctx context.Context, unschedulable bool) error {
		errs := make([]error, 0, len(nodes.Items))
		for i := range nodes.Items {
			patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, unschedulable)
			errs = append(errs, k.Patch(ctx, &nodes.Items[i], client.RawPatch(types.MergePatchType, []byte(patch)), owner))
		}
		return errors.Join(errs...)
	}
	return func() error { return set(context.WithoutCancel(ctx), false) }, set(ctx, true)
}

// errNoProcess is a machine on which the bed does not run.
var errNoProcess = errors.New("no such process on this machine")

// StopKubelet stops the bed's kubelet in its tracks, until it is resumed.
func StopKubelet() (resume func() error, err error) {
	found, err := signalled(syscall.SIGSTOP, func(process process) bool { return filepath.Base(process.command[0]) == "kubelet" })
	if err != nil {
		return nil, fmt.Errorf("stopping the kubelet: %w", err)
	}
	return func() error {
		for _, process := range found {
			if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
				return fmt.Errorf("resuming the kubelet: %w", err)
			}
		}
		return nil
	}, nil
}

// CrashOperator ends all replicas of the bed's operator between two instructions, and
// makes new ones: nobody shuts down, and nobody gives the Lease back.
func (k *Kubernetes) CrashOperator(ctx context.Context) error {
	return k.CrashProcess(ctx, operatorName)
}

// CrashProcess is CrashOperator of a process of Keyturn, by the name of its Deployment.
func (k *Kubernetes) CrashProcess(ctx context.Context, name string) error {
	pods, err := k.ProcessPods(ctx, name)
	if err != nil {
		return err
	}
	_, err = signalled(syscall.SIGKILL, func(process process) bool {
		return filepath.Base(process.command[0]) == "keyturn" && process.isOf(pods)
	})
	if err != nil {
		return fmt.Errorf("killing the process of Deployment %s: %w", name, err)
	}
	for i := range pods {
		// Containers that crash again and again are started again later and later.
		if err := client.IgnoreNotFound(k.Delete(ctx, &pods[i], client.GracePeriodSeconds(0))); err != nil {
			return fmt.Errorf("deleting pod %s: %w", pods[i].Name, err)
		}
	}
	return nil
}

// process is one of this machine: its command line, and the control groups that it belongs to.
type process struct {
	command []string
	groups  string
}

func (p process) isOf(pods []corev1.Pod) bool {
	for i := range pods {
		if strings.Contains(p.groups, "/pod"+string(pods[i].UID)+"/") {
			return true
		}
	}
	return false
}

// signalled sends a signal to all processes of this machine that are meant, and says which they were.
func signalled(signal syscall.Signal, is func(process) bool) ([]int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []int
	for _, folder := range folders {
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		groups, unread := os.ReadFile(filepath.Join(folder, "cgroup"))
		if err != nil || unread != nil || len(line) == 0 || !is(process{strings.Split(string(line), "\x00"), string(groups)}) {
			continue // a process that has ended meanwhile, or another one
		}
		number, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			return nil, fmt.Errorf("reading the number of a process: %w", err)
		}
		switch err := syscall.Kill(number, signal); {
		case errors.Is(err, syscall.ESRCH):
			continue
		case err != nil:
			return nil, fmt.Errorf("sending %v to process %d: %w", signal, number, err)
		}
		found = append(found, number)
	}
	if len(found) == 0 {
		return nil, errNoProcess
	}
	return found, nil
}
