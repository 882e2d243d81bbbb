// Package volume renders the volumes through which a pod is told what to present, what
// to trust and what was published, whichever process runs in it.
package volume

import (
	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
)

// ReadOnlyMode lets only the files' owner and the pod's group read mounted keys.
const ReadOnlyMode int32 = 0o440

// Secret is the volume name with every key of a Secret.
func Secret(name, secret string) *coreac.VolumeApplyConfiguration {
	return coreac.Volume().WithName(name).WithSecret(coreac.SecretVolumeSource().
		WithSecretName(secret).WithDefaultMode(ReadOnlyMode))
}

// PodInfo is the volume name with the annotations of the pod itself: its pin, and what
// was published since.
func PodInfo(name string) *coreac.VolumeApplyConfiguration {
	return coreac.Volume().WithName(name).WithDownwardAPI(coreac.DownwardAPIVolumeSource().
		WithDefaultMode(ReadOnlyMode).
		WithItems(coreac.DownwardAPIVolumeFile().
			WithPath(agent.AnnotationsFile).
			WithFieldRef(coreac.ObjectFieldSelector().
				WithAPIVersion(corev1.SchemeGroupVersion.Version).WithFieldPath("metadata.annotations"))))
}
