package model

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// Mode is where the certificates of a cluster come from.
type Mode string

// The modes.
const (
	// Dynamic has the operator sign certificates for keys that members make.
	Dynamic Mode = ""
	// Static takes keys and certificates from Secrets that others keep.
	Static Mode = "Static"
	// Insecure uses no certificates at all.
	Insecure Mode = "Insecure"
)

// Names are what the objects of a cluster are called, and where its members are reached.
type Names struct {
	Namespace, Cluster string
	// Mode decides on the scheme of URLs, and on the names that certificates have to have.
	Mode Mode
}

// MaxMembers is how many members a cluster has at most. Their ordinals count on from 0.
const MaxMembers = 7

// PeerService is the headless Service with the DNS names of all members. With Static it is that of the public operator,
// which the certificates in the Secrets were made for.
func (n Names) PeerService() string {
	if n.Mode == Static {
		return n.Cluster
	}
	return n.Cluster + "-peer"
}

// ClientService is the Service that clients connect to.
func (n Names) ClientService() string { return n.Cluster + "-client" }

// Member is the name of a member, of its pod, its Secret, and its account with role and binding.
func (n Names) Member(ordinal int) string { return n.Cluster + "-" + strconv.Itoa(ordinal) }

// Ordinal is the number of a member by its name, and whether it is the name of one.
func (n Names) Ordinal(member string) (int, bool) {
	text, isOurs := strings.CutPrefix(member, n.Cluster+"-")
	ordinal, err := strconv.Atoi(text)
	return ordinal, isOurs && err == nil && ordinal >= 0 && n.Member(ordinal) == member
}

// isMember reports whether a cluster of these names can have a member of that name.
func (n Names) isMember(name string) bool {
	ordinal, is := n.Ordinal(name)
	return is && ordinal < MaxMembers
}

// Claim is the name of the claim with the data of a member.
func (n Names) Claim(member string) string { return "data-" + member }

// Host is the DNS name of a member, which resolves in all namespaces of the Kubernetes cluster.
func (n Names) Host(member string) string {
	return fmt.Sprintf("%s.%s.%s.svc", member, n.PeerService(), n.Namespace)
}

// PeerURL is where other members reach a member.
func (n Names) PeerURL(member string) string {
	return n.scheme() + n.Host(member) + ":" + strconv.Itoa(contract.PeerPort)
}

// ClientURL is where clients reach a member.
func (n Names) ClientURL(member string) string { return n.ClientURLAt(n.Host(member)) }

// ClientURLAt is where clients reach a member at an address of its pod.
func (n Names) ClientURLAt(address string) string {
	if strings.Contains(address, ":") { // IPv6
		address = "[" + address + "]"
	}
	return n.scheme() + address + ":" + strconv.Itoa(contract.ClientPort)
}

func (n Names) scheme() string {
	if n.Mode == Insecure {
		return "http://"
	}
	return "https://"
}

// CAName is the common name of the CA of a plane, without the number of its key.
func (n Names) CAName(plane contract.Plane) string { return fmt.Sprintf("%s %s-ca", n.Cluster, plane) }

// CAKeySecret and CACertSecret are the Secrets of the CA of a plane, in the operator's namespace. No namespace has a
// dot in its name, so that those of two clusters never meet.
func (n Names) CAKeySecret(plane contract.Plane) string {
	return fmt.Sprintf("%s.%s-%s-ca", n.Namespace, n.Cluster, plane)
}

// CACertSecret see CAKeySecret.
func (n Names) CACertSecret(plane contract.Plane) string { return n.CAKeySecret(plane) + "-cert" }

// TrustedCertsSecret is the Secret with the CAs of a plane that members trust, in the operator's namespace.
func (n Names) TrustedCertsSecret(plane contract.Plane) string {
	return n.CAKeySecret(plane) + "-trusted-certs"
}

// OperatorSecret is the Secret of the operator's certificate as a client of the cluster, in the operator's namespace.
func (n Names) OperatorSecret() string {
	return fmt.Sprintf("%s.%s-operator", n.Namespace, n.Cluster)
}

// Ledger is the ConfigMap with the certificates that were issued to members, in the operator's namespace.
func (n Names) Ledger() string { return fmt.Sprintf("%s.%s-issued", n.Namespace, n.Cluster) }

// Record is the ConfigMap with what the CAs were decided from last, in the operator's namespace.
func (n Names) Record() string { return fmt.Sprintf("%s.%s-trust", n.Namespace, n.Cluster) }

// NamespacedName identifies the EtcdCluster.
func (n Names) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: n.Namespace, Name: n.Cluster}
}
