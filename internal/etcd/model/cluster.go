package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// DefaultRepository has the images that the project of etcd publishes.
const DefaultRepository = "quay.io/coreos/etcd"

// Settings are those of the operator.
type Settings struct {
	// AgentImage has the keyturn binary.
	AgentImage string
	// Repository of the images of etcd where an EtcdCluster has none; empty means DefaultRepository.
	Repository string
	// PullPolicy of all containers; empty means Kubernetes' default.
	PullPolicy corev1.PullPolicy
	// PullSecrets are what the images of all pods are pulled with.
	PullSecrets []corev1.LocalObjectReference
	// ClusterDomain is the DNS domain of the Kubernetes cluster.
	ClusterDomain string
	// OperatorNamespace is the namespace of the operator's pods.
	OperatorNamespace string
}

// Cluster is an EtcdCluster with its defaults.
type Cluster struct {
	Names      Names
	UID        types.UID
	Generation int64
	Size       int
	// Version is what members shall run: that of the spec, or what they run while they cannot get from there to it.
	Version string
	Paused  bool
	TLS     TLS
	// Static are the Secrets of a cluster with certificates of others, nil of any other. What is in them is read later.
	Static *StaticSecrets
	// Restore is the file that the cluster begins with; nil when it begins without data.
	Restore *etcdv1beta2.RestoreSource

	// running is the version that all members had when they were last ready, target that of the spec.
	running, target string
	repository      string
	pod             etcdv1beta2.PodPolicy
	clientPeers     []networkingv1.NetworkPolicyPeer
	settings        Settings
}

// TLS says how keys and certificates are that the operator signs. It is zero where it signs none.
type TLS struct {
	// CAValidity by plane.
	CAValidity map[contract.Plane]time.Duration
	// LeafValidity is how long certificates of members and clients are valid. They are renewed after two thirds.
	LeafValidity time.Duration
	// Algorithm of CA keys.
	Algorithm pki.Algorithm
	// Attestation says when requests may be signed.
	Attestation etcdv1beta2.Attestation
}

// Defaults of the API.
const (
	defaultCAValidity   = 43800 * time.Hour
	defaultLeafValidity = 720 * time.Hour
)

// Reason is why a cluster is not ready, as a condition has it.
type Reason string

// NotSupported is the reason for a field that cannot be acted on.
const NotSupported Reason = "NotSupported"

// Problem keeps the operator from acting on a cluster.
type Problem struct {
	Reason  Reason
	Message string
}

// Findings are what is wrong with a spec.
type Findings struct {
	// Problem is nil when the spec can be acted on.
	Problem *Problem
	// Refused is why members do not get the version of the spec; nil when they do.
	Refused *Problem
	// Ignored are the fields without effect, as paths, sorted.
	Ignored []string
}

// Resolve fills in the defaults of a cluster.
func Resolve(etcd *etcdv1beta2.EtcdCluster, settings Settings) (Cluster, Findings) {
	spec, running := etcd.Spec, etcd.Status.CurrentVersion
	version, refused := nextVersion(running, spec.Version)
	c := Cluster{
		Names:       Names{Namespace: etcd.Namespace, Cluster: etcd.Name, Mode: ModeOf(spec.TLS)},
		UID:         etcd.UID,
		Generation:  etcd.Generation,
		Size:        int(spec.Size),
		Version:     version,
		Paused:      spec.Paused,
		TLS:         resolveTLS(spec.TLS),
		Restore:     spec.Restore,
		running:     running,
		target:      spec.Version,
		repository:  cmp.Or(spec.Repository, settings.Repository, DefaultRepository),
		clientPeers: spec.ClientPeers,
		settings:    settings,
	}
	if c.Names.Mode == Static {
		c.Static = staticSecrets(spec.TLS.Static)
	}
	if spec.Pod != nil {
		c.pod = *spec.Pod
	}
	findings := Findings{Refused: refused, Ignored: ignored(c.pod, c.Version)}
	if running == "" {
		findings.Problem, findings.Refused = refused, nil
	}
	return c, findings
}

func resolveTLS(policy *etcdv1beta2.TLSPolicy) TLS {
	if ModeOf(policy) != Dynamic {
		return TLS{}
	}
	tls := TLS{
		CAValidity:   map[contract.Plane]time.Duration{contract.ClientPlane: defaultCAValidity, contract.PeerPlane: defaultCAValidity},
		LeafValidity: defaultLeafValidity,
		Algorithm:    pki.ECDSA,
		Attestation:  etcdv1beta2.AttestationPolicy,
	}
	if policy == nil || policy.Dynamic == nil {
		return tls
	}
	dynamic := policy.Dynamic
	if dynamic.ClientCA != nil {
		tls.CAValidity[contract.ClientPlane] = dynamic.ClientCA.Validity.Duration
	}
	if dynamic.PeerCA != nil {
		tls.CAValidity[contract.PeerPlane] = dynamic.PeerCA.Validity.Duration
	}
	if dynamic.Leaf != nil {
		tls.LeafValidity = dynamic.Leaf.Validity.Duration
	}
	if dynamic.Attestation != "" {
		tls.Attestation = dynamic.Attestation
	}
	if dynamic.KeyAlgorithm == etcdv1beta2.RSA {
		tls.Algorithm = pki.RSA
	}
	return tls
}

func ignored(pod etcdv1beta2.PodPolicy, version string) []string {
	var paths []string
	for path, isSet := range map[string]bool{
		"spec.pod.antiAffinity":       pod.AntiAffinity,
		"spec.pod.busyboxImage":       pod.BusyboxImage != "",
		"spec.pod.DNSTimeoutInSecond": pod.DNSTimeoutInSecond != 0,
		"spec.pod.ClusterDomain":      pod.ClusterDomain != "",
	} {
		if isSet {
			paths = append(paths, path)
		}
	}
	for _, variable := range pod.EtcdEnv {
		if !hasEffect(variable, version) {
			paths = append(paths, "spec.pod.etcdEnv["+variable.Name+"]")
		}
	}
	slices.Sort(paths)
	return paths
}

// Ephemeral is true when members lose their data with their pods.
func (c Cluster) Ephemeral() bool { return c.pod.Ephemeral }

// SANs are the names of the certificate of a member in a plane: its exact DNS names, those of the Service for clients
// in their plane, and its addresses. Clients in the pod and behind a port-forward connect to localhost.
func (c Cluster) SANs(plane contract.Plane, member string, addresses []string) (pki.SANs, error) {
	host := c.Names.Host(member)
	names := append([]string{host, host + "." + c.settings.ClusterDomain}, addresses...)
	if plane == contract.ClientPlane {
		names = append(names, c.clientNames()...)
		names = append(names, "127.0.0.1")
	}
	return pki.NewSANs(names...)
}

// Domains are those that the names of all members are in.
func (c Cluster) Domains(plane contract.Plane) []string {
	members := fmt.Sprintf("%s.%s.svc", c.Names.PeerService(), c.Names.Namespace)
	domains := []string{members, members + "." + c.settings.ClusterDomain}
	if plane == contract.ClientPlane {
		domains = append(domains, c.clientNames()...)
	}
	return domains
}

// clientNames are by which names clients find any member.
func (c Cluster) clientNames() []string {
	service := c.Names.ClientService()
	inNamespace := service + "." + c.Names.Namespace
	return []string{service, inNamespace, inNamespace + ".svc", inNamespace + ".svc." + c.settings.ClusterDomain, "localhost"}
}

// Usages are what the certificate of a member may be used for in a plane: members dial each other, and no clients.
func Usages(plane contract.Plane) []pki.Usage {
	if plane == contract.PeerPlane {
		return pki.BothUsages()
	}
	return []pki.Usage{pki.ServerAuth}
}
