package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyac "k8s.io/client-go/applyconfigurations/policy/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
)

const (
	controlPlanePortName = "tcp-ctrlplane"
	replicationPortName  = "tcp-replication"
	agentPortName        = "tcp-kafkaagent"
	probePortName        = "tcp-probe"

	discoveryAnnotation   = "strimzi.io/discovery"
	deleteClaimAnnotation = "strimzi.io/delete-claim"
	// ClusterIDAnnotation of a claim is the id of the cluster whose data it holds: it
	// outlives the Kafka and its status, as the data do.
	ClusterIDAnnotation = "keyturn.dev/cluster-id"
)

// ownerReference makes an object go when the Kafka goes. It is no controller
// reference: the Kafka controller finds its objects by their labels.
func (c Cluster) ownerReference() *metaac.OwnerReferenceApplyConfiguration {
	return metaac.OwnerReference().
		WithAPIVersion(kafkav1.GroupVersion.String()).
		WithKind(kafkav1.KindKafka).
		WithName(c.owner.Name).
		WithUID(c.owner.UID).
		WithController(false).
		WithBlockOwnerDeletion(true)
}

// BootstrapService is the Service that clients start from. It leads to brokers
// that are ready.
func (c Cluster) BootstrapService() (*coreac.ServiceApplyConfiguration, error) {
	discovery, err := c.discovery()
	if err != nil {
		return nil, err
	}
	labels := c.commonLabels()
	labels[DiscoveryLabel] = textTrue
	selector := c.SelectorLabels()
	selector[BrokerRoleLabel] = textTrue
	ports := append([]*coreac.ServicePortApplyConfiguration{servicePort(replicationPortName, ReplicationPort)}, c.listenerPorts()...)
	return coreac.Service(c.Names.BootstrapService(), c.Names.Namespace).
		WithLabels(labels).
		WithAnnotations(map[string]string{discoveryAnnotation: discovery}).
		WithOwnerReferences(c.ownerReference()).
		WithSpec(coreac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selector).
			WithPorts(ports...)), nil
}

// BrokersService is the headless Service that gives every pod its DNS name, also
// before it is ready: nodes find each other by it while they start.
func (c Cluster) BrokersService() *coreac.ServiceApplyConfiguration {
	ports := slices.Concat([]*coreac.ServicePortApplyConfiguration{
		servicePort(controlPlanePortName, ControlPlanePort),
		servicePort(replicationPortName, ReplicationPort),
		servicePort(agentPortName, agent.SecurePort),
	}, c.listenerPorts())
	return coreac.Service(c.Names.BrokersService(), c.Names.Namespace).
		WithLabels(c.commonLabels()).
		WithOwnerReferences(c.ownerReference()).
		WithSpec(coreac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(c.SelectorLabels()).
			WithPorts(ports...))
}

func (c Cluster) listenerPorts() []*coreac.ServicePortApplyConfiguration {
	ports := make([]*coreac.ServicePortApplyConfiguration, 0, len(c.Listeners))
	for _, listener := range c.Listeners {
		ports = append(ports, servicePort(listener.portName(), listener.Port))
	}
	return ports
}

func servicePort(name string, port int32) *coreac.ServicePortApplyConfiguration {
	return coreac.ServicePort().
		WithName(name).
		WithProtocol(corev1.ProtocolTCP).
		WithPort(port).
		WithTargetPort(intstr.FromInt32(port))
}

// discovered is one entry of the discovery annotation.
type discovered struct {
	Port     int32  `json:"port"`
	TLS      bool   `json:"tls"`
	Protocol string `json:"protocol"`
	Auth     string `json:"auth"`
}

// discovery lists the user's listeners in the form of Strimzi's discovery label.
func (c Cluster) discovery() (string, error) {
	entries := make([]discovered, 0, len(c.Listeners))
	for _, listener := range c.Listeners {
		entries = append(entries, discovered{
			Port:     listener.Port,
			TLS:      listener.TLS,
			Protocol: "kafka",
			Auth:     string(listener.Authentication),
		})
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return "", fmt.Errorf("encoding the listeners of Kafka %s/%s: %w", c.Names.Namespace, c.Names.Cluster, err)
	}
	return string(data), nil
}

// ServiceAccount is what the pods run as. They do not talk to the API server and
// get no token.
func (c Cluster) ServiceAccount() *coreac.ServiceAccountApplyConfiguration {
	return coreac.ServiceAccount(c.Names.Kafka(), c.Names.Namespace).
		WithLabels(c.commonLabels()).
		WithOwnerReferences(c.ownerReference()).
		WithAutomountServiceAccountToken(false)
}

// PodDisruptionBudget lets one pod be evicted at a time. It says how many must
// stay, not how many may go: Kubernetes cannot count what a StrimziPodSet wants.
func (c Cluster) PodDisruptionBudget() *policyac.PodDisruptionBudgetApplyConfiguration {
	return policyac.PodDisruptionBudget(c.Names.Kafka(), c.Names.Namespace).
		WithLabels(c.commonLabels()).
		WithOwnerReferences(c.ownerReference()).
		WithSpec(policyac.PodDisruptionBudgetSpec().
			WithMinAvailable(intstr.FromInt(max(len(c.Nodes)-1, 0))).
			WithSelector(metaac.LabelSelector().WithMatchLabels(c.SelectorLabels())))
}

// ConfigMap is the configuration of one node.
func (c Cluster) ConfigMap(node Node) (*coreac.ConfigMapApplyConfiguration, error) {
	data, err := c.NodeConfig(node)
	if err != nil {
		return nil, err
	}
	pool, _ := c.Pool(node.Pool)
	return coreac.ConfigMap(node.Pod, c.Names.Namespace).
		WithLabels(c.poolLabels(pool)).
		WithOwnerReferences(c.ownerReference()).
		WithData(data), nil
}

// PersistentVolumeClaims are the claims of one node. They have an owner only
// when they are to go with the Kafka.
func (c Cluster) PersistentVolumeClaims(node Node) []*coreac.PersistentVolumeClaimApplyConfiguration {
	pool, _ := c.Pool(node.Pool)
	claims := []*coreac.PersistentVolumeClaimApplyConfiguration{}
	for _, volume := range pool.Volumes {
		if volume.Type != kafkav1.StoragePersistentClaim {
			continue
		}
		claim := coreac.PersistentVolumeClaim(volume.Claim(node.Pod), c.Names.Namespace).
			WithLabels(c.poolLabels(pool)).
			WithAnnotations(c.claimAnnotations(volume)).
			WithSpec(claimSpec(volume))
		if volume.DeleteClaim {
			claim.WithOwnerReferences(c.ownerReference())
		}
		claims = append(claims, claim)
	}
	return claims
}

func (c Cluster) claimAnnotations(volume Volume) map[string]string {
	annotations := map[string]string{deleteClaimAnnotation: strconv.FormatBool(volume.DeleteClaim)}
	if c.ClusterID != "" {
		annotations[ClusterIDAnnotation] = c.ClusterID
	}
	return annotations
}

func claimSpec(volume Volume) *coreac.PersistentVolumeClaimSpecApplyConfiguration {
	spec := coreac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(coreac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: volume.Size}))
	if volume.Class != "" {
		spec.WithStorageClassName(volume.Class)
	}
	if len(volume.Selector) > 0 {
		spec.WithSelector(metaac.LabelSelector().WithMatchLabels(volume.Selector))
	}
	return spec
}
