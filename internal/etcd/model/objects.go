package model

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacac "k8s.io/client-go/applyconfigurations/rbac/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// Labels of the objects. The first three are those that the public operator gave to pods.
const (
	AppLabel     = "app"
	ClusterLabel = "etcd_cluster"
	MemberLabel  = "etcd_node"
	// ManagedByLabel with the value Manager is on every object of every cluster.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// RoleLabel of a pod is voter when clients may connect to its member.
	RoleLabel = "keyturn.dev/etcd-role"
	// ClusterUIDLabel of a Secret in the operator's namespace is the UID of the EtcdCluster that it was made for.
	ClusterUIDLabel = "keyturn.dev/cluster-uid"
	// NamespaceUIDLabel of such a Secret is the UID that the namespace of the EtcdCluster had.
	NamespaceUIDLabel = "keyturn.dev/namespace-uid"
	// NamespaceLabel of such a Secret is the namespace of the EtcdCluster.
	NamespaceLabel = "keyturn.dev/cluster-namespace"

	// Manager is the name of the operator.
	Manager = "keyturn-etcd-operator"
	app     = "etcd"
)

// Annotations of a pod.
const (
	// VersionAnnotation is the version of etcd that the pod was created with.
	VersionAnnotation = "etcd.version"
	// AttestationAnnotation is the attestation.Verdict's revision under which only the pod itself can have
	// written its requests since they were last removed.
	AttestationAnnotation = "keyturn.dev/attestation"
	// TrustAnnotation names the CAs from Secrets that the pod was started with.
	TrustAnnotation = "keyturn.dev/etcd-trust"
	// RevisionAnnotation is the PodRevision of the spec that the pod was created of.
	RevisionAnnotation = "keyturn.dev/etcd-pod-revision"
)

// JoinedAnnotation is on the claim of a member that has joined, and has its peer URL.
const JoinedAnnotation = "keyturn.dev/etcd-joined"

// Object is an object to be applied, with what identifies it.
type Object struct {
	Kind   schema.GroupVersionKind
	Name   string
	Intent runtime.ApplyConfiguration
}

// Shared are the objects that the members of a cluster share.
func (c Cluster) Shared() []Object {
	peer := coreac.Service(c.Names.PeerService(), c.Names.Namespace).
		WithLabels(c.Labels()).WithOwnerReferences(c.owner()).
		WithSpec(coreac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone).
			// Members find each other before they are ready, or none ever is.
			WithPublishNotReadyAddresses(true).
			WithSelector(c.selector()).
			WithPorts(servicePort("peer", contract.PeerPort), servicePort("client", contract.ClientPort)))
	selector := c.selector()
	selector[RoleLabel] = string(etcdv1beta2.RoleVoter)
	client := coreac.Service(c.Names.ClientService(), c.Names.Namespace).
		WithLabels(c.Labels()).WithOwnerReferences(c.owner()).
		WithSpec(coreac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selector).
			WithPorts(servicePort("client", contract.ClientPort)))
	service := corev1.SchemeGroupVersion.WithKind("Service")
	return []Object{{service, c.Names.PeerService(), peer}, {service, c.Names.ClientService(), client}}
}

// Account is the identity of a member: it may read and change its own pod and nothing else. One that asks for no
// certificates needs none.
func (c Cluster) Account(member string) []Object {
	if c.Names.Mode != Dynamic {
		return nil
	}
	namespace, labels := c.Names.Namespace, c.MemberLabels(member)
	account := coreac.ServiceAccount(member, namespace).WithLabels(labels).WithOwnerReferences(c.owner()).
		WithAutomountServiceAccountToken(false)
	role := rbacac.Role(member, namespace).WithLabels(labels).WithOwnerReferences(c.owner()).
		WithRules(ruleIntents(PodRules(member))...)
	binding := rbacac.RoleBinding(member, namespace).WithLabels(labels).WithOwnerReferences(c.owner()).
		WithRoleRef(rbacac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(member)).
		WithSubjects(rbacac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(member).WithNamespace(namespace))
	return []Object{
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), member, account},
		{rbacv1.SchemeGroupVersion.WithKind("Role"), member, role},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), member, binding},
	}
}

// PodRules are what a pod that requests certificates may do: read and change itself.
func PodRules(pod string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"}, ResourceNames: []string{pod}, Verbs: []string{"get", "patch"}}}
}

func ruleIntents(rules []rbacv1.PolicyRule) []*rbacac.PolicyRuleApplyConfiguration {
	intents := make([]*rbacac.PolicyRuleApplyConfiguration, 0, len(rules))
	for _, rule := range rules {
		intents = append(intents, rbacac.PolicyRule().
			WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return intents
}

// Claim is the claim with the data of a member.
func (c Cluster) Claim(member string) *corev1.PersistentVolumeClaim {
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")},
		},
	}
	if given := c.pod.PersistentVolumeClaimSpec; given != nil {
		given = given.DeepCopy()
		if len(given.AccessModes) == 0 {
			given.AccessModes = spec.AccessModes
		}
		if len(given.Resources.Requests) == 0 {
			given.Resources.Requests = spec.Resources.Requests
		}
		spec = *given
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: c.meta(c.Names.Claim(member), c.MemberLabels(member)), Spec: spec}
}

// Labels are those of all objects of the cluster.
func (c Cluster) Labels() map[string]string {
	labels := c.selector()
	labels["app.kubernetes.io/name"] = app
	labels["app.kubernetes.io/instance"] = c.Names.Cluster
	return labels
}

// PrivateLabels are those of the Secrets of the cluster in the operator's namespace. Namespace is the UID of the cluster's own.
func (c Cluster) PrivateLabels(namespace types.UID) map[string]string {
	labels := c.Labels()
	labels[NamespaceUIDLabel] = string(namespace)
	labels[ClusterUIDLabel] = string(c.UID)
	labels[NamespaceLabel] = c.Names.Namespace
	return labels
}

// MemberLabels are those of the objects of one member.
func (c Cluster) MemberLabels(member string) map[string]string {
	labels := c.Labels()
	labels[MemberLabel] = member
	return labels
}

// selector selects the pods of members. The admission policy keeps others from making pods with ManagedByLabel.
func (c Cluster) selector() map[string]string {
	return map[string]string{AppLabel: app, ClusterLabel: c.Names.Cluster, ManagedByLabel: Manager}
}

// IsOwned reports whether the EtcdCluster controls an object.
func (c Cluster) IsOwned(object metav1.Object) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.UID == c.UID
}

// IsOrphan reports whether an object is of an EtcdCluster of this name that was deleted without it.
func (c Cluster) IsOrphan(object metav1.Object) bool {
	labels := object.GetLabels()
	return metav1.GetControllerOf(object) == nil && labels[ManagedByLabel] == Manager && labels[ClusterLabel] == c.Names.Cluster
}

// Owner makes objects go with the EtcdCluster.
func (c Cluster) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: etcdv1beta2.GroupVersion.String(), Kind: etcdv1beta2.KindEtcdCluster,
		Name: c.Names.Cluster, UID: c.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

func (c Cluster) owner() *metaac.OwnerReferenceApplyConfiguration {
	owner := c.Owner()
	return metaac.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
		WithName(owner.Name).WithUID(owner.UID).WithController(true).WithBlockOwnerDeletion(true)
}

func (c Cluster) meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: c.Names.Namespace, Name: name, Labels: maps.Clone(labels), OwnerReferences: []metav1.OwnerReference{c.Owner()},
	}
}

func servicePort(name string, port int32) *coreac.ServicePortApplyConfiguration {
	return coreac.ServicePort().WithName(name).WithPort(port).WithTargetPort(intstr.FromInt32(port)).WithProtocol(corev1.ProtocolTCP)
}
