package contract

import (
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Plane is one of the two interfaces of a member. Each has a key, a certificate and a CA of its own.
type Plane string

// The planes of a member.
const (
	// PeerPlane is between members, on port 2380. Its certificates serve and dial.
	PeerPlane Plane = "peer"
	// ClientPlane is between members and their clients, on port 2379. Its certificates only serve.
	ClientPlane Plane = "client"
)

// Planes are all planes, in the order in which requests without a plane in their name are read.
func Planes() []Plane { return []Plane{PeerPlane, ClientPlane} }

// Annotations of the enrollment, without a plane. The value is standard base64 of PEM.
const (
	// RequestAnnotation carries PKCS#10 requests of the pod.
	RequestAnnotation = "kubeEtcdCSR"
	// CertificateAnnotation carries the chains that answer the requests, each leaf first.
	CertificateAnnotation = "kubeEtcdCert"
)

// RestartAnnotation of a pod carries the revision of a publication, in decimal. Etcd reads its CAs only when it starts: one that was
// started under an earlier publication is started again in its pod once this one, or a later one, is mounted and can be used. Nothing
// happens where that changes no CA.
const RestartAnnotation = "keyturn.dev/etcd-restart"

// RequestAnnotation carries the PKCS#10 request of one plane, as standard base64 of PEM.
func (p Plane) RequestAnnotation() string { return RequestAnnotation + "-" + string(p) }

// CertificateAnnotation carries the chain that answers the request of one plane, leaf first.
func (p Plane) CertificateAnnotation() string { return CertificateAnnotation + "-" + string(p) }

// Role names the plane in a publication and in the pin of the pod: its trust holds the fingerprints of the CAs of the
// cluster that the member accepts in this plane. There are no others.
func (p Plane) Role() publication.Role { return publication.Role(p) }

// Domain names the CA of the plane.
func (p Plane) Domain() publication.Domain { return publication.Domain(p) }

// AnchorsKey is the key of the member's Secret with the trusted CA certificates of the plane, in PEM. The Secret is
// mounted at agent.NodeDir and holds no private key.
func (p Plane) AnchorsKey() string { return string(p) + "-ca.crt" }

// Dir is where the agent leaves what etcd reads for the plane: a memory-backed directory.
func (p Plane) Dir() string { return agent.RunDir + "/" + string(p) }

// Files that etcd reads.
const (
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
	AnchorsFile     = "ca.crt"
)

// CertificatePath is the chain that etcd presents in the plane.
func (p Plane) CertificatePath() string { return p.Dir() + "/" + CertificateFile }

// KeyPath is its key. It is made by the agent and never leaves the pod.
func (p Plane) KeyPath() string { return p.Dir() + "/" + KeyFile }

// AnchorsPath is what etcd trusts in the plane.
func (p Plane) AnchorsPath() string { return p.Dir() + "/" + AnchorsFile }

// Ports of a member.
const (
	ClientPort = 2379
	PeerPort   = 2380
	// MetricsPort serves metrics and health of etcd to the agent, on loopback only.
	MetricsPort = 2381
	// ScrapePort serves the same to clients, with the certificates of ClientPort.
	ScrapePort = 2383
)

// OperatorOrganization is the organization of the operator's client certificates. No other certificate bears it.
const OperatorOrganization = "keyturn.dev"
