// Package companion describes the clients of a cluster's nodes that the operator runs
// beside them, such as an exporter. Each is a peer of the cluster CA's domain: it
// presents a certificate to the nodes, verifies theirs, and proves what it has loaded.
//
// It renders objects and decides nothing; what a companion is given is trust's to say.
package companion

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model/volume"
	"github.com/keyturn/keyturn/internal/publication"
)

// Companion is a process in the pods of a Deployment that talks to the nodes. Those with
// one Name share the Deployment, and each has containers and a certificate of its own.
//
// It finds its certificate, its key and the publication below agent.NodeDir, and
// the anchors below contract.ClusterTrustDir. It starts on nothing older than what its
// annotation agent.PinAnnotation names, and loads nothing that the publication does
// not. It proves what it has loaded on its port, where it answers the
// operator at agent.TLSPath with the one role publication.AgentRole.
type Companion struct {
	// Name is that of the Deployment, and the value of the label strimzi.io/name.
	Name string
	// Process tells it from others that share the Deployment; empty for one of them at most.
	Process string
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
	// Port is where it proves what it has loaded; 0 stands for agent.SecurePort.
	Port int32
	// Replicas is how many pods there are.
	Replicas int32
	// Rules are what it may do in its namespace. Without any, the pods have no account of their own.
	Rules []rbacv1.PolicyRule
	// Pod is what runs in each; the certificates are mounted into every container. Of those that
	// share a Deployment, the first says what the pod is beside its containers.
	Pod *coreac.PodSpecApplyConfiguration
}

// Member is the name by which the trust of the domain knows the companion.
func (c Companion) Member() string {
	if c.Process == "" {
		return c.Name
	}
	return c.CommonName
}

// AgentPort is where the companion proves what it has loaded.
func (c Companion) AgentPort() int32 { return cmp.Or(c.Port, agent.SecurePort) }

// PinAnnotation is the annotation with the publication that the companion starts on.
func (c Companion) PinAnnotation() string { return agent.AnnotationOf(c.Process, agent.PinAnnotation) }

// PodOf is a pod of the Deployment as the companion alone has it, false if the pod was made
// without the companion. Its name and its UID tell it from what others in the pod have.
func (c Companion) PodOf(pod *corev1.Pod) (*corev1.Pod, bool) {
	if c.Process == "" {
		return pod, true
	}
	if _, pinned := pod.Annotations[c.PinAnnotation()]; !pinned {
		return nil, false
	}
	own := pod.DeepCopy()
	own.Name, own.UID = pod.Name+"/"+c.Process, pod.UID+types.UID("/"+c.Process)
	for _, annotation := range []string{agent.PinAnnotation, agent.PublishedAnnotation, agent.GivenAnnotation} {
		delete(own.Annotations, annotation)
		if value, written := pod.Annotations[agent.AnnotationOf(c.Process, annotation)]; written {
			own.Annotations[annotation] = value
		}
	}
	return own, true
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
	// Pins are the publications that pods start on, or on newer ones, by annotation. Other
	// pins make new pods.
	Pins map[string]string
}

// Names of the volumes.
const (
	identityVolume = "keyturn-identity"
	trustVolume    = "keyturn-cluster-trust"
	podVolume      = "keyturn-pod"
)

// Group is the companions that share a Deployment, at least one.
type Group []Companion

// Groups are the companions by their Deployments, in their order.
func Groups(companions []Companion) []Group {
	var groups []Group
	for _, c := range companions {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Name() == c.Name })
		if i < 0 {
			groups = append(groups, Group{c})
			continue
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// Name is that of the Deployment.
func (g Group) Name() string { return g[0].Name }

// Rules are what any of them may do, each once.
func (g Group) Rules() []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, c := range g {
		for _, rule := range c.Rules {
			if !slices.ContainsFunc(all, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }) {
				all = append(all, rule)
			}
		}
	}
	return all
}

// Deployment renders what runs them.
func (g Group) Deployment(at Place) *appsac.DeploymentApplyConfiguration {
	return appsac.Deployment(g.Name(), at.Namespace).
		WithLabels(at.Labels).
		WithAnnotations(at.Pins).
		WithOwnerReferences(at.Owner).
		WithSpec(appsac.DeploymentSpec().
			WithReplicas(g[0].Replicas).
			WithSelector(metaac.LabelSelector().WithMatchLabels(at.Labels)).
			// The old pod serves until the new one does: both are peers until then.
			WithStrategy(appsac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType)).
			WithTemplate(coreac.PodTemplateSpec().
				WithLabels(maps.Clone(at.Labels)).
				WithAnnotations(maps.Clone(at.Pins)).
				WithSpec(g.podSpec(at.TrustSecret))))
}

func (g Group) podSpec(trustSecret string) *coreac.PodSpecApplyConfiguration {
	spec := *g[0].Pod
	if len(g.Rules()) > 0 {
		spec.WithServiceAccountName(g.Name())
	}
	spec.Volumes, spec.Containers = slices.Clone(spec.Volumes), nil
	for i, c := range g {
		if i > 0 {
			spec.Volumes = append(spec.Volumes, c.Pod.Volumes...)
		}
		spec.Containers = append(spec.Containers, c.containers()...)
		spec.WithVolumes(volume.Secret(c.identityVolume(), c.Secret))
	}
	return spec.WithVolumes(volume.Secret(trustVolume, trustSecret), volume.PodInfo(podVolume))
}

// containers are those of the companion, with what it presents and trusts.
func (c Companion) containers() []coreac.ContainerApplyConfiguration {
	containers := slices.Clone(c.Pod.Containers)
	for i := range containers {
		container := &containers[i]
		container.VolumeMounts = slices.Clone(container.VolumeMounts)
		container.WithVolumeMounts(
			mount(c.identityVolume(), agent.NodeDir), mount(trustVolume, contract.ClusterTrustDir), mount(podVolume, agent.PodDir))
	}
	return containers
}

func (c Companion) identityVolume() string {
	if c.Process == "" {
		return identityVolume
	}
	return identityVolume + "-" + c.Process
}

func mount(name, path string) *coreac.VolumeMountApplyConfiguration {
	return coreac.VolumeMount().WithName(name).WithMountPath(path).WithReadOnly(true)
}
