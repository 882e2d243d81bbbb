package model

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// Fields of a spec that an EtcdCluster cannot change, and that members of an earlier one of its name may have had otherwise.
const (
	tlsField       = "spec.TLS"
	ephemeralField = "spec.pod.ephemeral"
)

// UnlikePod is the field of the spec that was another one when a pod was created that an earlier cluster has left; empty
// when members of this spec can work with it.
func (c Cluster) UnlikePod(pod *corev1.Pod) string {
	start, err := contract.ParseStart(pod.Annotations[contract.StartAnnotation])
	switch {
	case IsEphemeral(pod) != c.Ephemeral():
		return ephemeralField
	case err == nil && start.Members[pod.Name] != c.Names.PeerURL(pod.Name):
		return tlsField
	default:
		return ""
	}
}

// UnlikeClaim is as UnlikePod, of the claim of a member.
func (c Cluster) UnlikeClaim(member string, claim *corev1.PersistentVolumeClaim) string {
	url, hasJoined := claim.Annotations[JoinedAnnotation]
	switch {
	case c.Ephemeral():
		return ephemeralField
	case hasJoined && url != c.Names.PeerURL(member):
		return tlsField
	default:
		return ""
	}
}

// IsEphemeral reports whether the pod of a member has its data in it.
func IsEphemeral(pod *corev1.Pod) bool { return claimOf(pod, dataVolume) == "" }
