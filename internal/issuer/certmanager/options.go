package certmanager

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// FieldOwner is the field manager under which Certificates and the owner references of their Secrets are applied.
const FieldOwner = "keyturn-certificates"

// SecretSuffix is what the name of a Certificate's Secret has behind the name of the Certificate, unless it is given.
const SecretSuffix = "-cm"

// Group is the API group of cert-manager, and that of its own kinds of issuers.
const Group = "cert-manager.io"

// Definition is the name of the CustomResourceDefinition without which nothing can be requested.
const Definition = "certificates." + Group

const kindCertificate = "Certificate"

// The kinds of cert-manager's own issuers.
const (
	KindIssuer        = "Issuer"
	KindClusterIssuer = "ClusterIssuer"
)

// CertificateNameAnnotation is set by cert-manager on the Secret of a Certificate.
const CertificateNameAnnotation = Group + "/certificate-name"

// OwnerLabel is put by cert-manager on the Secret of a Certificate that must not outlive its owner, and holds the UID of that. An owner
// reference is set only when the Secret is seen.
const OwnerLabel = "keyturn.dev/owner-uid"

// resource is one of the resources of cert-manager.
func resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: "v1", Resource: plural}
}

// certificates is the resource that requests are made with.
func certificates() schema.GroupVersionResource { return resource("certificates") }

// Reference names the issuer in the cluster that signs.
type Reference struct {
	// Name, Kind and Group are copied into the Certificates. Kind must be KindIssuer or KindClusterIssuer when Group is
	// that of cert-manager; other groups have kinds of their own.
	Name, Kind, Group string
}

// References says whether objects refer to the owner, so that they are deleted with it.
type References string

// The choices there are.
const (
	// WithReferences is for objects that must not outlive their owner.
	WithReferences References = "WithReferences"
	// WithoutReferences is for owners whose objects are kept when they are deleted.
	WithoutReferences References = "WithoutReferences"
)

// Placement says into which Secret cert-manager writes what it issues.
type Placement string

// The choices there are.
const (
	// InOwnSecret is a Secret that cert-manager creates, named after the Certificate with SecretSuffix.
	InOwnSecret Placement = ""
	// InGivenSecret is the Secret with the name of the Certificate. The caller has created it before the request: it must be
	// the owner's, and stays when the request is withdrawn.
	InGivenSecret Placement = "InGivenSecret"
)

// Options are what an Issuer needs.
type Options struct {
	// Server is asked by resource. Nothing that it answers is kept.
	Server dynamic.Interface
	// Certificates and Secrets read what exists already; see Live and Watch.
	Certificates CertificateReader
	Secrets      SecretReader

	// Memory is shared by all issuers of a process.
	Memory *Memory

	// Namespace is where the Certificates and their Secrets are.
	Namespace string
	// Issuer signs.
	Issuer Reference
	// Owner is the object that the requests are made for, whether References are set or not: its UID tells its objects
	// from those of others.
	Owner      metav1.OwnerReference
	References References
	Placement  Placement
	// PasswordEntry is the entry of a given Secret with the password of PKCS#12 stores; without it there are no stores.
	PasswordEntry string
	// Labels are put on Certificates and, by cert-manager, on their Secrets.
	Labels map[string]string
	// Selector are the labels that all objects of this owner and purpose carry and no others; they never change, and
	// are set beside Labels.
	Selector map[string]string
}

// labels are all that the objects carry.
func (o *Options) labels() map[string]string {
	all := maps.Clone(o.Selector)
	for key, value := range o.Labels {
		if _, fixed := all[key]; !fixed {
			all[key] = value
		}
	}
	return all
}

// secretName is the name of the Secret of a Certificate.
func (o *Options) secretName(certificate string) string {
	if o.Placement == InGivenSecret {
		return certificate
	}
	return certificate + SecretSuffix
}

func (o *Options) selector() labels.Selector { return labels.SelectorFromSet(o.Selector) }
