package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
)

// ErrDescription is wrapped by every error about the description of a pod that no pod
// is made from.
var ErrDescription = errors.New("not a description of the operator's")

// DescriptionError is why no pod is made from a description.
type DescriptionError struct {
	// Wrong is what is wrong with it, and Remedy what can be done.
	Wrong, Remedy string
}

// Error says what is wrong and what can be done.
func (e *DescriptionError) Error() string { return e.Why() + ": " + e.Remedy }

// Why says what is wrong. It is the same for all descriptions of which the same is wrong.
func (e *DescriptionError) Why() string { return ErrDescription.Error() + ": " + e.Wrong }

// Unwrap returns ErrDescription.
func (*DescriptionError) Unwrap() error { return ErrDescription }

// Description is a pod as a StrimziPodSet describes it, beside what is known of its
// cluster from elsewhere. Others may have written it.
type Description struct {
	// Kafka is the resource that the pod set belongs to.
	Kafka *kafkav1.Kafka
	// Pool is the resource of the pod's pool, nil when it is gone.
	Pool *kafkav1.KafkaNodePool
	// Settings are the operator's.
	Settings Settings
	// PodSet is the name of the set.
	PodSet string
	// Pod is what the set says.
	Pod *corev1.Pod
}

// undescribed is the error that the operator has not written the description, with a remedy.
func (d Description) undescribed(format string, args ...any) error {
	return &DescriptionError{
		Wrong:  fmt.Sprintf(format, args...),
		Remedy: fmt.Sprintf("the operator rewrites StrimziPodSet %s by itself; if this lasts, check whether Kafka %s is paused or NotReady", d.PodSet, d.Kafka.Name),
	}
}

// Render makes the described pod again as Cluster.Pod makes pods. Only what differs
// between the nodes of clusters is taken from the description, and within bounds: which
// node it is, its roles, ports, resources and data volumes, and the annotations that the
// operator gives to pods. The resources may have changed since, or may be wrong now, and
// the node is to come back as it was; but whatever else a description asks for, no pod
// has it.
//
// Images are the operator's or the Kafka's, and pull Secrets those of a pod that is
// created now. A description that another version of the operator wrote gets its Kafka
// version from the image that the operator has now.
// Errors wrap ErrDescription.
func (d Description) Render() (corev1.Pod, error) {
	cluster := LastKnown(Input{Kafka: d.Kafka, Settings: d.Settings}, nil)
	pool, id, named := cluster.Names.NodeOf(d.Pod.Name)
	if !named || cluster.Names.PodSet(pool) != d.PodSet {
		return corev1.Pod{}, d.undescribed("no node of the pool of StrimziPodSet %s has its name", d.PodSet)
	}
	described, err := d.container()
	if err != nil {
		return corev1.Pod{}, err
	}
	shape := Pool{Name: pool, labels: d.poolLabels(), pullSecrets: d.Settings.pullSecrets(nodeTemplate(d.Kafka, d.Pool))}
	if shape.Volumes, err = d.disks(); err != nil {
		return corev1.Pod{}, err
	}
	if shape.resources, err = d.resources(described); err != nil {
		return corev1.Pod{}, err
	}
	if cluster.Version, err = d.version(described.Image); err != nil {
		return corev1.Pod{}, err
	}
	node := Node{ID: id, Pool: pool, Pod: d.Pod.Name, Roles: Roles{
		Controller: d.Pod.Labels[ControllerRoleLabel] == textTrue, Broker: d.Pod.Labels[BrokerRoleLabel] == textTrue,
	}}
	pod := coreac.Pod(node.Pod, cluster.Names.Namespace).
		WithLabels(cluster.podLabels(shape, node)).
		WithAnnotations(d.annotations()).
		WithSpec(cluster.podSpec(shape, node))
	pod.Spec.Containers[0].Ports = portsOf(described)
	return decoded(pod)
}

// container is the one of the description that runs Kafka.
func (d Description) container() (corev1.Container, error) {
	at := slices.IndexFunc(d.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == kafkaContainer })
	if at < 0 {
		return corev1.Container{}, d.undescribed("it has no container %s", kafkaContainer)
	}
	return d.Pod.Spec.Containers[at], nil
}

func (d Description) poolLabels() map[string]string {
	if d.Pool == nil {
		return nil
	}
	return (&resolver{}).inheritedLabels("KafkaNodePool "+d.Pool.Name, d.Pool.Labels)
}

// disks are the volumes with the node's data. Where they are mounted, and which claims
// they are, follows from their names.
func (d Description) disks() ([]Volume, error) {
	var disks []Volume
	for i := range d.Pod.Spec.Volumes {
		volume := &d.Pod.Spec.Volumes[i]
		if !isDisk(volume.Name) {
			continue
		}
		disk := Volume{Name: volume.Name}
		switch {
		case volume.PersistentVolumeClaim != nil:
			disk.Type = kafkav1.StoragePersistentClaim
		case volume.EmptyDir != nil:
			disk.Type = kafkav1.StorageEphemeral
			if volume.EmptyDir.SizeLimit != nil {
				disk.Size = *volume.EmptyDir.SizeLimit
			}
		default:
			return nil, d.undescribed("volume %s is neither a claim nor ephemeral", volume.Name)
		}
		disks = append(disks, disk)
	}
	if len(disks) == 0 {
		return nil, d.undescribed("it has no volume for data")
	}
	return disks, nil
}

// isDisk reports whether volumesOf gives the name to a volume.
func isDisk(name string) bool {
	id, numbered := strings.CutPrefix(name, "data-")
	if !numbered {
		return name == "data"
	}
	_, err := strconv.ParseUint(id, 10, 31)
	return err == nil
}

// resources are those of the description. Names that Kubernetes does not give a meaning
// to may stand for devices of a machine: only those are taken that the Kafka or the pool
// asks for.
func (d Description) resources(described corev1.Container) (corev1.ResourceRequirements, error) {
	for _, list := range []corev1.ResourceList{described.Resources.Requests, described.Resources.Limits} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if !isPlain(name) && !d.asksFor(name) {
				return corev1.ResourceRequirements{}, d.undescribed("it asks for the resource %s, and neither the Kafka nor the pool does", name)
			}
		}
	}
	return corev1.ResourceRequirements{Limits: described.Resources.Limits, Requests: described.Resources.Requests}, nil
}

func isPlain(name corev1.ResourceName) bool {
	return slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, name) ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func (d Description) asksFor(name corev1.ResourceName) bool {
	asked := []*kafkav1.Resources{d.Kafka.Spec.Kafka.Resources}
	if d.Pool != nil {
		asked = append(asked, d.Pool.Spec.Resources)
	}
	return slices.ContainsFunc(asked, func(of *kafkav1.Resources) bool {
		if of == nil {
			return false
		}
		_, requested := of.Requests[name]
		_, limited := of.Limits[name]
		return requested || limited
	})
}

// version is the one that the pod was described for, with an image of it that is the
// Kafka's choice or the operator's.
func (d Description) version(described string) (KafkaVersion, error) {
	version, chosen := KafkaVersion{Name: d.Pod.Annotations[KafkaVersionAnnotation]}, d.Kafka.Spec.Kafka.Image
	if at := slices.IndexFunc(d.Settings.Versions, func(v KafkaVersion) bool { return v.Name == version.Name }); at >= 0 {
		version = d.Settings.Versions[at]
	}
	if chosen != "" && (described != version.Image || version.Image == "") {
		version.Image = chosen
	}
	if version.Image == "" {
		return KafkaVersion{}, &DescriptionError{
			Wrong:  fmt.Sprintf("it runs Kafka %q, of which the operator has no image", version.Name),
			Remedy: "add the version to the operator's images (kafkaImages of its chart), or set spec.kafka.image of the Kafka to an image of that version",
		}
	}
	return version, nil
}

// annotations are those of the description that the operator gives to pods. Others may
// ask something of the machines.
func (d Description) annotations() map[string]string {
	kept := map[string]string{}
	keep := func(name string) {
		if value, found := d.Pod.Annotations[name]; found {
			kept[name] = value
		}
	}
	keep(agent.PinAnnotation)
	for _, entry := range slices.Concat(shapeAnnotations(), certificateAnnotations()) {
		keep(entry.annotation)
	}
	return kept
}

// portsOf are the ports of the container itself, and none of its machine.
func portsOf(described corev1.Container) []coreac.ContainerPortApplyConfiguration {
	ports := make([]coreac.ContainerPortApplyConfiguration, 0, len(described.Ports))
	for _, port := range described.Ports {
		ports = append(ports, *containerPort(port.Name, port.ContainerPort))
	}
	return ports
}

func decoded(pod *coreac.PodApplyConfiguration) (corev1.Pod, error) {
	var object corev1.Pod
	data, err := json.Marshal(pod)
	if err == nil {
		err = json.Unmarshal(data, &object)
	}
	if err != nil {
		return corev1.Pod{}, fmt.Errorf("rendering pod %s: %w", *pod.Name, err)
	}
	return object, nil
}
