package model

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

const (
	// EtcdContainer is the name of the container of a member in which etcd runs.
	EtcdContainer = "etcd"
	initContainer = "keyturn-init"
	// etcdUser is not root; the images of etcd have no user of their own.
	etcdUser = 1000
	// readOnlyMode lets the pod's group read mounted files.
	readOnlyMode = 0o440
	// graceSeconds is what the agent counts on.
	graceSeconds = 30

	agentVolume = "agent"
	runVolume   = "run"
	nodeVolume  = "node"
	podVolume   = "pod-info"
	dataVolume  = "data"
	agentDir    = "/opt/keyturn"
	probePort   = "probe"
)

// Start says how a member starts.
type Start struct {
	// Version of etcd.
	Version string
	// HasJoined and IsFirst are those of the contract.Start that the pod is created with, and Members the names of its members.
	HasJoined, IsFirst bool
	Members            []string
}

// StartAnnotation is how etcd starts in the pod of a member.
func (c Cluster) StartAnnotation(start Start) (string, error) {
	told := contract.Start{HasJoined: start.HasJoined, IsFirst: start.IsFirst, Members: map[string]string{}}
	for _, name := range start.Members {
		told.Members[name] = c.Names.PeerURL(name)
	}
	return told.Encode()
}

// Pod is the pod of a member. It is created and never applied again.
//
// Trust says which CAs it is created to accept: an encoded publication.Publication, or StaticSecrets.Trust.
func (c Cluster) Pod(member string, start Start, trust string) (*corev1.Pod, error) {
	told, err := c.StartAnnotation(start)
	if err != nil {
		return nil, fmt.Errorf("rendering pod %s: %w", member, err)
	}
	labels := c.MemberLabels(member)
	maps.Copy(labels, c.userLabels())
	if start.IsFirst {
		labels[RoleLabel] = string(etcdv1beta2.RoleVoter)
	}
	pod := &corev1.Pod{ObjectMeta: c.meta(member, labels)}
	pod.Annotations = c.podAnnotations(start.Version, trust)
	pod.Annotations[contract.StartAnnotation] = told
	pod.Spec = corev1.PodSpec{
		Hostname:                      member,
		Subdomain:                     c.Names.PeerService(),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: new(int64(graceSeconds)),
		ImagePullSecrets:              slices.Clone(c.settings.PullSecrets),
		SecurityContext:               c.podSecurity(),
		NodeSelector:                  c.pod.NodeSelector,
		Affinity:                      c.pod.Affinity,
		TopologySpreadConstraints:     c.spread(),
		Tolerations:                   c.pod.Tolerations,
		InitContainers:                []corev1.Container{c.initContainer()},
		Containers:                    []corev1.Container{c.etcdContainer(member, start.Version)},
		Volumes:                       c.volumes(member),
	}
	if c.Names.Mode == Dynamic {
		pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = member, new(true)
	}
	return pod, nil
}

// spread asks for different zones and machines as far as there are any, and stands in no pod's way.
func (c Cluster) spread() []corev1.TopologySpreadConstraint {
	topologies := []string{corev1.LabelTopologyZone, corev1.LabelHostname}
	constraints := make([]corev1.TopologySpreadConstraint, 0, len(topologies))
	for _, topology := range topologies {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: c.selector()},
		})
	}
	return constraints
}

// podAnnotations are the user's and the operator's.
func (c Cluster) podAnnotations(version, trust string) map[string]string {
	annotations := map[string]string{VersionAnnotation: version, RevisionAnnotation: c.PodRevision()}
	maps.Copy(annotations, c.userAnnotations())
	switch c.Names.Mode {
	case Dynamic:
		annotations[agent.PinAnnotation] = trust
	case Static:
		annotations[TrustAnnotation] = trust
	case Insecure:
	}
	return annotations
}

// podSecurity is the user's, completed to what the restricted Pod Security Standard asks for.
func (c Cluster) podSecurity() *corev1.PodSecurityContext {
	security := &corev1.PodSecurityContext{}
	if c.pod.SecurityContext != nil {
		security = c.pod.SecurityContext.DeepCopy()
	}
	if security.RunAsNonRoot == nil {
		security.RunAsNonRoot = new(true)
	}
	if security.RunAsUser == nil {
		security.RunAsUser = new(int64(etcdUser))
	}
	if security.FSGroup == nil {
		security.FSGroup = new(int64(etcdUser))
	}
	if security.FSGroupChangePolicy == nil {
		security.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	}
	if security.SeccompProfile == nil {
		security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return security
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// initContainer copies the agent out of the operator's image.
func (c Cluster) initContainer() corev1.Container {
	return corev1.Container{
		Name:            initContainer,
		Image:           c.settings.AgentImage,
		ImagePullPolicy: c.settings.PullPolicy,
		Command:         []string{agent.ImageBinaryPath, "install", agent.BinaryPath},
		SecurityContext: containerSecurity(),
		VolumeMounts:    []corev1.VolumeMount{{Name: agentVolume, MountPath: agentDir}},
	}
}

func (c Cluster) etcdContainer(member, version string) corev1.Container {
	container := corev1.Container{
		Name:            EtcdContainer,
		Image:           c.repository + ":v" + version,
		ImagePullPolicy: c.settings.PullPolicy,
		Command:         append(c.agentCommand(), c.etcdCommand(member, version)...),
		Env:             c.environment(version),
		SecurityContext: containerSecurity(),
		Ports:           c.ports(),
		VolumeMounts:    append(c.identityMounts(), corev1.VolumeMount{Name: dataVolume, MountPath: dataDir}),
		StartupProbe:    probe(agent.LivePath, 1, 120),
		LivenessProbe:   probe(agent.LivePath, 10, 3),
		ReadinessProbe:  probe(agent.ReadyPath, 2, 3),
	}
	if c.pod.Resources != nil {
		container.Resources = *c.pod.Resources
	}
	return container
}

// environment tells the agent which pod it is in; names are of Kubernetes' downward API.
func (c Cluster) environment(version string) []corev1.EnvVar {
	variables := make([]corev1.EnvVar, 0, len(c.pod.EtcdEnv)+3)
	for _, field := range []struct{ name, path string }{
		{"POD_NAME", "metadata.name"}, {"POD_NAMESPACE", "metadata.namespace"}, {"POD_UID", "metadata.uid"},
	} {
		variables = append(variables, corev1.EnvVar{Name: field.name, ValueFrom: &corev1.EnvVarSource{FieldRef: fieldRef(field.path)}})
	}
	for _, variable := range c.pod.EtcdEnv {
		if hasEffect(variable, version) && variable.Name != featureGates {
			variables = append(variables, variable)
		}
	}
	return variables
}

func fieldRef(path string) *corev1.ObjectFieldSelector {
	return &corev1.ObjectFieldSelector{APIVersion: corev1.SchemeGroupVersion.Version, FieldPath: path}
}

// probe asks the agent over plain HTTP, which tells nothing but yes or no.
func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString(probePort), Scheme: corev1.URISchemeHTTP,
		}},
		TimeoutSeconds: 5, PeriodSeconds: period, FailureThreshold: failures,
	}
}

func containerPort(name string, port int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}
}

func (c Cluster) volumes(member string) []corev1.Volume {
	data := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	if !c.Ephemeral() {
		data = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Names.Claim(member)}}
	}
	return append(c.identityVolumes(member), corev1.Volume{Name: dataVolume, VolumeSource: data})
}
