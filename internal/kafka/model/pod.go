package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model/volume"
)

const (
	kafkaContainer = "kafka"
	initContainer  = "keyturn-init"
	// kafkaUser and kafkaGroup are not root, and the group is the one that the
	// images of Kafka give their files to.
	kafkaUser, kafkaGroup = 1001, 0

	agentVolume        = "agent"
	temporaryVolume    = "tmp"
	runVolume          = "run"
	nodeVolume         = "node"
	clusterTrustVolume = "cluster-trust"
	clientsTrustVolume = "clients-trust"
	configVolume       = "config"
	podInfoVolume      = "pod-info"

	agentDir     = "/opt/keyturn"
	temporaryDir = "/tmp"
)

// PodAnnotations are the values that enter a pod from outside the model. None of
// them counts into the revision.
type PodAnnotations struct {
	// ClusterCACertGeneration and the two others are the generations of the
	// authorities at the time the pod is made.
	ClusterCACertGeneration, ClusterCAKeyGeneration, ClientsCACertGeneration int64
	// ServerCertHash names the node's leaf by its SHA-1, in lower-case hex.
	ServerCertHash string
	// ListenerCertThumbprints names the user's certificates by listener; nodes
	// without the role broker have none.
	ListenerCertThumbprints map[string]string
	// Pin is the encoded publication.Publication that the pod is made under.
	Pin string
}

// Pod is the pod of one node.
func (c Cluster) Pod(node Node, values PodAnnotations) (*coreac.PodApplyConfiguration, error) {
	config, err := c.NodeConfig(node)
	if err != nil {
		return nil, err
	}
	pool, _ := c.Pool(node.Pool)
	pod := coreac.Pod(node.Pod, c.Names.Namespace).
		WithLabels(c.podLabels(pool, node)).
		WithSpec(c.podSpec(pool, node))
	annotations := values.annotations(node)
	annotations[ConfigurationHashAnnotation] = ConfigurationHash(config)
	annotations[KafkaVersionAnnotation] = c.Version.Name
	revision, resources, err := revisions(pod)
	if err != nil {
		return nil, fmt.Errorf("computing the revision of pod %s: %w", node.Pod, err)
	}
	annotations[RevisionAnnotation] = revision
	annotations[ResourceRevisionAnnotation] = resources
	return pod.WithAnnotations(annotations), nil
}

func (c Cluster) podSpec(pool Pool, node Node) *coreac.PodSpecApplyConfiguration {
	return withPullSecrets(coreac.PodSpec(), pool.pullSecrets).
		WithHostname(node.Pod).
		WithSubdomain(c.Names.BrokersService()).
		WithServiceAccountName(c.Names.Kafka()).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithRestartPolicy(corev1.RestartPolicyAlways).
		WithTerminationGracePeriodSeconds(podGraceSeconds).
		WithSecurityContext(podSecurity()).
		WithTopologySpreadConstraints(spread(map[string]string{ClusterLabel: c.Names.Cluster, PoolLabel: pool.Name})...).
		WithInitContainers(c.initContainer()).
		WithContainers(c.kafkaContainer(pool, node)).
		WithVolumes(c.podVolumes(pool, node)...)
}

// spread asks for different zones and machines as far as there are any, and stands in no pod's way.
func spread(labels map[string]string) []*coreac.TopologySpreadConstraintApplyConfiguration {
	topologies := []string{corev1.LabelTopologyZone, corev1.LabelHostname}
	constraints := make([]*coreac.TopologySpreadConstraintApplyConfiguration, 0, len(topologies))
	for _, topology := range topologies {
		constraints = append(constraints, coreac.TopologySpreadConstraint().
			WithMaxSkew(1).WithTopologyKey(topology).WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithLabelSelector(metaac.LabelSelector().WithMatchLabels(labels)))
	}
	return constraints
}

func podSecurity() *coreac.PodSecurityContextApplyConfiguration {
	return coreac.PodSecurityContext().
		WithRunAsUser(kafkaUser).
		WithRunAsGroup(kafkaGroup).
		WithRunAsNonRoot(true).
		WithFSGroup(kafkaUser).
		WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
		WithSeccompProfile(coreac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
}

func containerSecurity() *coreac.SecurityContextApplyConfiguration {
	return coreac.SecurityContext().
		WithAllowPrivilegeEscalation(false).
		WithPrivileged(false).
		WithReadOnlyRootFilesystem(true).
		WithRunAsNonRoot(true).
		WithCapabilities(coreac.Capabilities().WithDrop("ALL"))
}

// initContainer copies the agent out of the operator's image.
func (c Cluster) initContainer() *coreac.ContainerApplyConfiguration {
	container := coreac.Container().
		WithName(initContainer).
		WithImage(c.settings.AgentImage).
		WithCommand(agent.ImageBinaryPath, "install", agent.BinaryPath).
		WithSecurityContext(containerSecurity()).
		WithVolumeMounts(mount(agentVolume, agentDir))
	if c.settings.PullPolicy != "" {
		container.WithImagePullPolicy(c.settings.PullPolicy)
	}
	return container
}

// OperatorPod is a pod for OperatorContainer.
func (c Cluster) OperatorPod() *coreac.PodSpecApplyConfiguration {
	return withPullSecrets(c.beside.podSpec(), c.beside.pullSecrets)
}

// OperatorContainer runs the operator's own image, with the environment that the user adds to the container of that name.
func (c Cluster) OperatorContainer(name string, resources *kafkav1.Resources) *coreac.ContainerApplyConfiguration {
	container := coreac.Container().
		WithName(name).
		WithImage(c.settings.AgentImage).
		WithCommand("/keyturn").
		WithSecurityContext(containerSecurity())
	if c.settings.PullPolicy != "" {
		container.WithImagePullPolicy(c.settings.PullPolicy)
	}
	container.Env = slices.Clone(c.beside.env[name])
	if resources != nil {
		container.WithResources(resourcesOf(corev1.ResourceRequirements{Limits: resources.Limits, Requests: resources.Requests}))
	}
	return container
}

func (c Cluster) kafkaContainer(pool Pool, node Node) *coreac.ContainerApplyConfiguration {
	container := coreac.Container().
		WithName(kafkaContainer).
		WithImage(c.Version.Image).
		WithCommand(agent.BinaryPath, "kafka").
		WithSecurityContext(containerSecurity()).
		WithPorts(c.containerPorts(node)...).
		WithVolumeMounts(containerMounts(pool)...).
		WithStartupProbe(probe("/v1/live").WithPeriodSeconds(1).WithFailureThreshold(120)).
		WithLivenessProbe(probe("/v1/live").WithPeriodSeconds(10).WithFailureThreshold(3)).
		WithReadinessProbe(probe("/v1/ready").WithPeriodSeconds(2).WithFailureThreshold(3))
	if c.settings.PullPolicy != "" {
		container.WithImagePullPolicy(c.settings.PullPolicy)
	}
	if len(pool.resources.Limits) > 0 || len(pool.resources.Requests) > 0 {
		container.WithResources(resourcesOf(pool.resources))
	}
	return container
}

func resourcesOf(requirements corev1.ResourceRequirements) *coreac.ResourceRequirementsApplyConfiguration {
	resources := coreac.ResourceRequirements()
	if len(requirements.Limits) > 0 {
		resources.WithLimits(requirements.Limits)
	}
	if len(requirements.Requests) > 0 {
		resources.WithRequests(requirements.Requests)
	}
	return resources
}

// probe asks the agent over plain HTTP, which tells nothing but yes or no.
func probe(path string) *coreac.ProbeApplyConfiguration {
	return coreac.Probe().
		WithTimeoutSeconds(5).
		WithHTTPGet(coreac.HTTPGetAction().
			WithPath(path).
			WithPort(intstr.FromString(probePortName)).
			WithScheme(corev1.URISchemeHTTP))
}

func (c Cluster) containerPorts(node Node) []*coreac.ContainerPortApplyConfiguration {
	ports := []*coreac.ContainerPortApplyConfiguration{}
	if node.Roles.Controller {
		ports = append(ports, containerPort(controlPlanePortName, ControlPlanePort))
	}
	if node.Roles.Broker {
		ports = append(ports, containerPort(replicationPortName, ReplicationPort))
		for _, listener := range c.Listeners {
			ports = append(ports, containerPort(listener.portName(), listener.Port))
		}
	}
	return append(ports,
		containerPort(agentPortName, agent.SecurePort),
		containerPort(probePortName, agent.ProbePort))
}

func containerPort(name string, port int32) *coreac.ContainerPortApplyConfiguration {
	return coreac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

func containerMounts(pool Pool) []*coreac.VolumeMountApplyConfiguration {
	data := make([]*coreac.VolumeMountApplyConfiguration, 0, len(pool.Volumes))
	for _, disk := range pool.Volumes {
		data = append(data, mount(disk.Name, disk.MountPath()))
	}
	return slices.Concat([]*coreac.VolumeMountApplyConfiguration{
		mount(agentVolume, agentDir).WithReadOnly(true),
		mount(temporaryVolume, temporaryDir),
		mount(runVolume, agent.RunDir),
		mount(nodeVolume, agent.NodeDir).WithReadOnly(true),
		mount(clusterTrustVolume, contract.ClusterTrustDir).WithReadOnly(true),
		mount(clientsTrustVolume, contract.ClientsTrustDir).WithReadOnly(true),
		mount(configVolume, agent.ConfigDir).WithReadOnly(true),
		mount(podInfoVolume, agent.PodDir).WithReadOnly(true),
	}, data)
}

func mount(name, path string) *coreac.VolumeMountApplyConfiguration {
	return coreac.VolumeMount().WithName(name).WithMountPath(path)
}

func (c Cluster) podVolumes(pool Pool, node Node) []*coreac.VolumeApplyConfiguration {
	data := make([]*coreac.VolumeApplyConfiguration, 0, len(pool.Volumes))
	for _, disk := range pool.Volumes {
		data = append(data, dataVolume(disk, node.Pod))
	}
	return slices.Concat([]*coreac.VolumeApplyConfiguration{
		coreac.Volume().WithName(agentVolume).WithEmptyDir(coreac.EmptyDirVolumeSource()),
		coreac.Volume().WithName(temporaryVolume).WithEmptyDir(coreac.EmptyDirVolumeSource()),
		coreac.Volume().WithName(runVolume).WithEmptyDir(coreac.EmptyDirVolumeSource().
			WithMedium(corev1.StorageMediumMemory).WithSizeLimit(resource.MustParse("16Mi"))),
		volume.Secret(nodeVolume, node.Pod),
		volume.Secret(clusterTrustVolume, c.Names.ClusterTrustSecret()),
		volume.Secret(clientsTrustVolume, c.Names.ClientsTrustSecret()),
		coreac.Volume().WithName(configVolume).WithConfigMap(coreac.ConfigMapVolumeSource().
			WithName(node.Pod).WithDefaultMode(volume.ReadOnlyMode)),
		volume.PodInfo(podInfoVolume),
	}, data)
}

func dataVolume(disk Volume, pod string) *coreac.VolumeApplyConfiguration {
	rendered := coreac.Volume().WithName(disk.Name)
	if disk.Type == kafkav1.StoragePersistentClaim {
		return rendered.WithPersistentVolumeClaim(coreac.PersistentVolumeClaimVolumeSource().WithClaimName(disk.Claim(pod)))
	}
	source := coreac.EmptyDirVolumeSource()
	if !disk.Size.IsZero() {
		source.WithSizeLimit(disk.Size)
	}
	return rendered.WithEmptyDir(source)
}

// revisions digests the pod as it is before its annotations: the first without
// the resources of the containers, the second over those alone.
//
// The init container is left out: it comes from the operator's image, and an
// operator upgrade must not restart anything. So are pull Secrets, which a pod
// that has its image needs no more.
func revisions(pod *coreac.PodApplyConfiguration) (revision, resources string, err error) {
	spec := *pod.Spec
	spec.InitContainers, spec.ImagePullSecrets = nil, nil
	spec.Containers = make([]coreac.ContainerApplyConfiguration, 0, len(pod.Spec.Containers))
	limits := make([]*coreac.ResourceRequirementsApplyConfiguration, 0, len(pod.Spec.Containers))
	for _, container := range pod.Spec.Containers {
		limits = append(limits, container.Resources)
		container.Resources = nil
		container.ImagePullPolicy = nil
		spec.Containers = append(spec.Containers, container)
	}
	labels := maps.Clone(pod.Labels)
	shape, err := json.Marshal(struct {
		Labels map[string]string                 `json:"labels"`
		Spec   *coreac.PodSpecApplyConfiguration `json:"spec"`
	}{labels, &spec})
	if err != nil {
		return "", "", fmt.Errorf("encoding the pod: %w", err)
	}
	demand, err := json.Marshal(limits)
	if err != nil {
		return "", "", fmt.Errorf("encoding the resources: %w", err)
	}
	return stub(string(shape)), stub(string(demand)), nil
}
