package model

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// Where the Secrets of a static cluster are mounted: where the public operator had them.
const (
	peerSecretVolume   = "peer-tls"
	serverSecretVolume = "server-tls"
	peerSecretDir      = "/etc/etcdtls/member/" + peerSecretVolume
	serverSecretDir    = "/etc/etcdtls/member/" + serverSecretVolume
)

// agentCommand is the first process of the container, which starts etcd.
func (c Cluster) agentCommand() []string {
	if c.Names.Mode != Dynamic {
		return []string{agent.BinaryPath, "etcd-mounted", "--"}
	}
	return []string{agent.BinaryPath, "etcd", "--key-algorithm=" + string(c.TLS.Algorithm), "--"}
}

// ports are those of a member. An agent without certificates of its own does not serve the operator.
func (c Cluster) ports() []corev1.ContainerPort {
	ports := []corev1.ContainerPort{containerPort("client", contract.ClientPort), containerPort("peer", contract.PeerPort), containerPort("metrics", contract.ScrapePort)}
	if c.Names.Mode == Dynamic {
		ports = append(ports, containerPort("agent", agent.SecurePort))
	}
	return append(ports, containerPort(probePort, agent.ProbePort))
}

// identityMounts are the agent and what a member presents and trusts.
func (c Cluster) identityMounts() []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: agentVolume, MountPath: agentDir, ReadOnly: true},
		{Name: runVolume, MountPath: agent.RunDir},
		{Name: podVolume, MountPath: agent.PodDir, ReadOnly: true},
	}
	switch c.Names.Mode {
	case Dynamic:
		return append(mounts,
			corev1.VolumeMount{Name: nodeVolume, MountPath: agent.NodeDir, ReadOnly: true})
	case Static:
		return append(mounts,
			corev1.VolumeMount{Name: peerSecretVolume, MountPath: peerSecretDir, ReadOnly: true},
			corev1.VolumeMount{Name: serverSecretVolume, MountPath: serverSecretDir, ReadOnly: true})
	default:
		return mounts
	}
}

func (c Cluster) identityVolumes(member string) []corev1.Volume {
	volumes := []corev1.Volume{
		{Name: agentVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		// Private keys are here and never reach a disk.
		{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("16Mi")),
		}}},
		{Name: podVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			DefaultMode: new(int32(readOnlyMode)),
			Items:       []corev1.DownwardAPIVolumeFile{{Path: agent.AnnotationsFile, FieldRef: fieldRef("metadata.annotations")}},
		}}},
	}
	switch c.Names.Mode {
	case Dynamic:
		return append(volumes,
			secretVolume(nodeVolume, member))
	case Static:
		return append(volumes,
			secretVolume(peerSecretVolume, c.Static.Peer.Name), secretVolume(serverSecretVolume, c.Static.Server.Name))
	default:
		return volumes
	}
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: new(int32(readOnlyMode)),
	}}}
}
