// Package companion describes the clients of a cluster's nodes that the operator runs
// beside them, such as an exporter. Each is a peer of the cluster CA's domain: it
// presents a certificate to the nodes, verifies theirs, and proves what it has loaded.
//
// It renders objects and decides nothing; what a companion is given is trust's to say.
package companion

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model/volume"
	"github.com/keyturn/keyturn/internal/publication"
)

// Companion is a Deployment whose pods talk to the nodes.
//
// A pod finds its certificate, its key and the publication below agent.NodeDir, and
// the anchors below contract.ClusterTrustDir. It starts on nothing older than what its
// annotation agent.PinAnnotation names, and loads nothing that the publication does
// not. It proves what it has loaded on agent.SecurePort, where it answers the
// operator at agent.TLSPath with the one role publication.AgentRole.
type Companion struct {
	// Name is that of the Deployment, and the value of the label strimzi.io/name.
	Name string
	// Type is the value of the label strimzi.io/component-type.
	Type string
	// Secret is the name of the Secret with what a pod presents, and the publication.
	Secret string
	// CommonName is that of the certificate, by which nodes know the companion.
	CommonName string
	// Certificate is the key of the certificate in the Secret, without its ending.
	Certificate string
	// Host is the name in the certificate, by which the operator recognises the pods.
	Host string
	// Loading is how a pod gets what is published: by itself, or by a new one.
	Loading publication.Loading
	// Replicas is how many pods there are.
	Replicas int32
	// Rules are what the pods may do in their namespace. Without any, they have no account of their own.
	Rules []rbacv1.PolicyRule
	// Pod is what runs in each; the certificates are mounted into every container.
	Pod *coreac.PodSpecApplyConfiguration
}

// Stores is the one store that a pod has.
func Stores() []publication.Store {
	return []publication.Store{{Role: publication.AgentRole, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain}}
}

// Place is where a companion runs.
type Place struct {
	Namespace string
	// Labels are on the Deployment and on its pods.
	Labels map[string]string
	Owner  *metaac.OwnerReferenceApplyConfiguration
	// TrustSecret holds the anchors of the cluster CA.
	TrustSecret string
	// Pin is the publication that pods start on, or on a newer one. Another pin makes
	// new pods.
	Pin string
}

// Names of the volumes.
const (
	identityVolume = "keyturn-identity"
	trustVolume    = "keyturn-cluster-trust"
	podVolume      = "keyturn-pod"
)

// Deployment renders the companion.
func (c Companion) Deployment(at Place) *appsac.DeploymentApplyConfiguration {
	pin := map[string]string{agent.PinAnnotation: at.Pin}
	return appsac.Deployment(c.Name, at.Namespace).
		WithLabels(at.Labels).
		WithAnnotations(pin).
		WithOwnerReferences(at.Owner).
		WithSpec(appsac.DeploymentSpec().
			WithReplicas(c.Replicas).
			WithSelector(metaac.LabelSelector().WithMatchLabels(at.Labels)).
			// The old pod serves until the new one does: both are peers until then.
			WithStrategy(appsac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType)).
			WithTemplate(coreac.PodTemplateSpec().
				WithLabels(maps.Clone(at.Labels)).
				WithAnnotations(maps.Clone(pin)).
				WithSpec(c.podSpec(at.TrustSecret))))
}

func (c Companion) podSpec(trustSecret string) *coreac.PodSpecApplyConfiguration {
	spec := *c.Pod
	if len(c.Rules) > 0 {
		spec.WithServiceAccountName(c.Name)
	}
	spec.Volumes = slices.Clone(spec.Volumes)
	spec.Containers = slices.Clone(spec.Containers)
	for i := range spec.Containers {
		container := &spec.Containers[i]
		container.VolumeMounts = slices.Clone(container.VolumeMounts)
		container.WithVolumeMounts(
			mount(identityVolume, agent.NodeDir), mount(trustVolume, contract.ClusterTrustDir), mount(podVolume, agent.PodDir))
	}
	return spec.WithVolumes(volume.Secret(identityVolume, c.Secret), volume.Secret(trustVolume, trustSecret), volume.PodInfo(podVolume))
}

func mount(name, path string) *coreac.VolumeMountApplyConfiguration {
	return coreac.VolumeMount().WithName(name).WithMountPath(path).WithReadOnly(true)
}
