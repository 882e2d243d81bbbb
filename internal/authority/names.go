package authority

import (
	"strconv"

	"github.com/keyturn/keyturn/internal/pki"
)

// Kind tells the two authorities of a cluster apart. Its value is the part of
// Secret names and common names that differs.
type Kind string

// The two authorities of a Kafka cluster.
const (
	// ClusterCA signs what the cluster itself presents.
	ClusterCA Kind = "cluster-ca"
	// ClientsCA signs what users present.
	ClientsCA Kind = "clients-ca"
)

// KeySecret names the Secret with the private key.
func (k Kind) KeySecret(cluster string) string { return cluster + "-" + string(k) }

// CertSecret names the Secret with the certificate, which applications read.
func (k Kind) CertSecret(cluster string) string { return cluster + "-" + string(k) + "-cert" }

// TrustedCertsSecret names the Secret with the anchors, which pods mount.
func (k Kind) TrustedCertsSecret(cluster string) string {
	return cluster + "-" + string(k) + "-trusted-certs"
}

// field is the part of the Kafka resource that configures this authority.
func (k Kind) field() string {
	if k == ClientsCA {
		return "spec.clientsCa"
	}
	return "spec.clusterCa"
}

// subject carries the generation of the key, so that an outgoing and an incoming
// CA have different names.
func (k Kind) subject(key Generation) pki.Subject {
	return pki.Subject{Organization: pki.StrimziOrganization, CommonName: string(k) + " v" + key.String()}
}

// Keys of the CA Secrets.
const (
	// KeyKey holds the private key in the key Secret.
	KeyKey = "ca.key"
	// CertKey holds the certificate in the certificate Secret.
	CertKey = "ca.crt"
	// StoreKey holds the PKCS#12 trust store in the certificate Secret.
	StoreKey = "ca.p12"
	// PasswordKey holds the password of StoreKey.
	PasswordKey = "ca.password"
	// CrossKey holds, in the key Secret, the unexpired cross certificates for the
	// present key and for retired ones.
	CrossKey = "ca-cross.crt"
	// PendingKeyKey, PendingCertKey and PendingCrossKey hold, in the key Secret,
	// the key, the certificate and the cross certificates of an authority that is
	// going to replace the present one. They enter in one write.
	PendingKeyKey   = "next-ca.key"
	PendingCertKey  = "next-ca.crt"
	PendingCrossKey = "next-ca-cross.crt"
)

// Annotations of the CA Secrets and of what is signed by them.
const (
	CertGenerationAnnotation = "strimzi.io/ca-cert-generation"
	KeyGenerationAnnotation  = "strimzi.io/ca-key-generation"
	// ForceRenewAnnotation on the certificate Secret asks for a new certificate
	// of the same key.
	ForceRenewAnnotation = "strimzi.io/force-renew"
	// ForceReplaceAnnotation on the key Secret asks for a new key.
	ForceReplaceAnnotation = "strimzi.io/force-replace"
	// AbortReplaceAnnotation on the key Secret asks for the end of a replacement
	// and for the authority that was to be replaced.
	AbortReplaceAnnotation = "keyturn.dev/abort-replace"
	// DistrustAnnotation on the key Secret, with the value DistrustNow, says that
	// every anchor but the target is compromised.
	DistrustAnnotation = "keyturn.dev/distrust"
	// TemplateAnnotation on the certificate Secret remembers which labels and annotations
	// of it come from a template.
	TemplateAnnotation = "keyturn.dev/template"
	// AllowSharedAnnotation on the Kafka, with the value "true", allows a clients CA that
	// nodes accept as theirs.
	AllowSharedAnnotation = "keyturn.dev/allow-shared-ca"
	// DistrustNow is the one value of DistrustAnnotation.
	DistrustNow = "now"
	// ClusterCertGenerationAnnotation on leaf Secrets and pods names the
	// generation of the cluster CA that signed the leaf.
	ClusterCertGenerationAnnotation = "strimzi.io/cluster-ca-cert-generation"
	// ClusterKeyGenerationAnnotation on pods names the generation of the cluster
	// CA's key they trust.
	ClusterKeyGenerationAnnotation = "strimzi.io/cluster-ca-key-generation"
	// ClientsCertGenerationAnnotation on pods names the generation of the clients CA.
	ClientsCertGenerationAnnotation = "strimzi.io/clients-ca-cert-generation"
)

// Generation counts certificates or keys of one authority for people and tools.
// It never goes backwards, and it identifies nothing.
type Generation int

// MaxGeneration is the highest number that is believed. Nobody comes to it by counting.
const MaxGeneration Generation = 1 << 30

// String returns the decimal number as annotations carry it.
func (g Generation) String() string { return strconv.Itoa(int(g)) }

const (
	datedPrefix = "ca-"
	certSuffix  = ".crt"
	keySuffix   = ".key"
	stateSuffix = ".state"
)
