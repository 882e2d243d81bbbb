package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pauseImage does nothing for as long as it is let; the bed's pods all have it.
const pauseImage = "keyturn.dev/pause:1"

// refusedAfter is how long a connection may take that nobody keeps anybody from: ten times what the bed needs when it is busy.
const refusedAfter = 3 * time.Second

// Stranger is a pod that is no part of a cluster, and connects from its own network as a program in it would.
type Stranger struct {
	kafka   Kafka
	pod     *corev1.Pod
	network podNetwork
}

// StartStranger starts a pod with labels in the cluster's namespace, on the bed.
func (k Kafka) StartStranger(ctx context.Context, name string, labels map[string]string) (*Stranger, error) {
	pod := &corev1.Pod{ObjectMeta: k.Meta(name)}
	pod.Labels = labels
	pod.Spec.AutomountServiceAccountToken = new(false)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	pod.Spec.Containers = []corev1.Container{{Name: "pause", Image: pauseImage, ImagePullPolicy: corev1.PullIfNotPresent}}
	if err := k.Kube.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("starting pod %s: %w", name, err)
	}
	s := &Stranger{kafka: k, pod: pod}
	err := Poll(ctx, func() (bool, error) {
		if err := k.Kube.Get(ctx, k.Key(name), pod); err != nil {
			return false, err
		}
		return podReady(pod) && pod.Status.PodIP != "", nil
	})
	if err == nil {
		s.network, err = networkOf(pod.UID)
	}
	if err != nil {
		return nil, fmt.Errorf("starting pod %s: %w", name, err)
	}
	return s, nil
}

// Reaches reports whether a connection from the pod to an address comes about. Whoever answers that nobody listens is reached.
func (s *Stranger) Reaches(ctx context.Context, address string) (bool, error) {
	err := s.network.do(func() error {
		dialer := net.Dialer{Timeout: refusedAfter}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	if failure, is := errors.AsType[net.Error](err); is && failure.Timeout() && ctx.Err() == nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("connecting from pod %s: %w", s.pod.Name, err)
	}
	return true, nil
}

// Labels are those of the pod.
func (s *Stranger) Labels() map[string]string { return s.pod.Labels }

// End takes the pod away.
func (s *Stranger) End(ctx context.Context) error {
	err := client.IgnoreNotFound(s.kafka.Kube.Delete(ctx, s.pod, client.GracePeriodSeconds(0)))
	return errors.Join(err, s.network.Close())
}
