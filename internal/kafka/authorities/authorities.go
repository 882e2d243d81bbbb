// Package authorities names the two authorities of a Kafka cluster, their Secrets and the
// annotations by which Strimzi's users know them, and has the words for their rotations.
package authorities

import (
	"fmt"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// Kind tells the two authorities of a cluster apart. Its value is the part of
// Secret names and common names that differs.
type Kind string

// The two authorities of a Kafka cluster.
const (
	// Cluster signs what the cluster itself presents.
	Cluster Kind = "cluster-ca"
	// Clients signs what users present.
	Clients Kind = "clients-ca"
)

// Organization is that of everything that belongs to a cluster itself. User certificates
// never carry it.
const Organization = "io.strimzi"

// Annotations of the CA Secrets and of what is signed by them.
const (
	CertGenerationAnnotation = "strimzi.io/ca-cert-generation"
	// CertHashAnnotation on the certificate Secret is the hash of the CAs that were copied from a user's Secret.
	CertHashAnnotation      = "strimzi.io/ca-cert-hash"
	KeyGenerationAnnotation = "strimzi.io/ca-key-generation"
	// ForceRenewAnnotation on the certificate Secret asks for a new certificate
	// of the same key.
	ForceRenewAnnotation = "strimzi.io/force-renew"
	// ForceReplaceAnnotation on the key Secret asks for a new key.
	ForceReplaceAnnotation = "strimzi.io/force-replace"
	// ClusterCertGenerationAnnotation on leaf Secrets and pods names the
	// generation of the cluster CA that signed the leaf.
	ClusterCertGenerationAnnotation = "strimzi.io/cluster-ca-cert-generation"
	// ClusterKeyGenerationAnnotation on pods names the generation of the cluster
	// CA's key they trust.
	ClusterKeyGenerationAnnotation = "strimzi.io/cluster-ca-key-generation"
	// ClientsCertGenerationAnnotation on pods names the generation of the clients CA.
	ClientsCertGenerationAnnotation = "strimzi.io/clients-ca-cert-generation"
)

// Reasons of the events that the pending authority took the place of the present one.
const (
	ClusterKeyReplaced authority.TransitionKind = "ClusterCaCertKeyReplaced"
	ClientsKeyReplaced authority.TransitionKind = "ClientsCaCertKeyReplaced"
)

// Of is the authority that signs for these holders.
func Of(holders authority.Holders) Kind {
	if holders == authority.Users {
		return Clients
	}
	return Cluster
}

// Names of Secrets, with those of the cluster and of the authority in them.
const (
	keySecret  = "%s-%s"
	certSecret = keySecret + "-cert"
)

// KeySecret names the Secret with the private key.
func (k Kind) KeySecret(cluster string) string { return fmt.Sprintf(keySecret, cluster, k) }

// CertSecret names the Secret with the certificate, which applications read.
func (k Kind) CertSecret(cluster string) string { return fmt.Sprintf(certSecret, cluster, k) }

// TrustedCertsSecret names the Secret with the anchors, which pods mount.
func (k Kind) TrustedCertsSecret(cluster string) string {
	return cluster + "-" + string(k) + "-trusted-certs"
}

// Names are what everything about the authority of a cluster is called.
func (k Kind) Names(cluster string) *authority.Names {
	names := &authority.Names{
		Authority: string(k), Cluster: cluster, Organization: Organization, Resource: resource, Windows: "spec.maintenanceTimeWindows",
		KeySecret: k.KeySecret(cluster), CertSecret: k.CertSecret(cluster), TrustedCertsSecret: k.TrustedCertsSecret(cluster),
		Labels:         "strimzi.io/kind=Kafka and strimzi.io/cluster=" + cluster,
		CertGeneration: CertGenerationAnnotation, KeyGeneration: KeyGenerationAnnotation,
		CertHash:   CertHashAnnotation,
		ForceRenew: ForceRenewAnnotation, ForceReplace: ForceReplaceAnnotation,
	}
	if k == Clients {
		names.Holders, names.Field, names.KeyReplaced = authority.Users, "spec.clientsCa", ClientsKeyReplaced
		names.Leaf = pki.Subject{CommonName: "user"}
	} else {
		names.Holders, names.Field, names.KeyReplaced = authority.Members, "spec.clusterCa", ClusterKeyReplaced
		names.Leaf = pki.Subject{Organization: Organization, CommonName: cluster + "-kafka"}
	}
	names.Source = names.Field + ".generateCertificateAuthority"
	names.Bundle = names.Field + ".certManager.caCert"
	return names
}
