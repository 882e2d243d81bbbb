package imagepull

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// Awaits reports whether a pod does not start because an image cannot be pulled. One of which a container was created may
// have a server that runs, whatever image another container waits for.
func Awaits(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.ContainerID != "" }) {
		return false
	}
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, s.State.Waiting.Reason)
	})
}

// Lacks reports whether a pod waits for an image without one of these Secrets, which another pod would be given. Further
// Secrets of the pod do not count: something else has added them, and would again.
func Lacks(pod *corev1.Pod, secrets []corev1.LocalObjectReference) bool {
	return Awaits(pod) && slices.ContainsFunc(secrets, func(secret corev1.LocalObjectReference) bool {
		return !slices.Contains(pod.Spec.ImagePullSecrets, secret)
	})
}

// Cause says of a pod that waits for an image with which Secrets it is pulled, and what to look at.
func Cause(pod *corev1.Pod) string {
	secrets := pod.Spec.ImagePullSecrets
	if len(secrets) == 0 {
		return "its image cannot be pulled, and it has no pull Secret: check that the image exists, and set one if the registry requires credentials"
	}
	names := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		names = append(names, excerpt.Of(secret.Name, excerpt.Foreign))
	}
	return fmt.Sprintf("its image cannot be pulled with pull Secret %s: check that the image exists, and that namespace %s has the Secret with credentials for the registry",
		excerpt.First(names, excerpt.Named, ", "), pod.Namespace)
}
