package model

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// What a reference to an issuer means that leaves them out, as in cert-manager.
const (
	certManagerGroup  = "cert-manager.io"
	issuerKind        = "Issuer"
	clusterIssuerKind = "ClusterIssuer"
)

// CertificatesResource is that of the Certificates of cert-manager, which tell what an issuer has issued.
func CertificatesResource() schema.GroupResource {
	return schema.GroupResource{Group: certManagerGroup, Resource: "certificates"}
}

// IssuerRef names an issuer of cert-manager, or of a controller that issues for it. Nothing is left out.
type IssuerRef struct{ Name, Kind, Group string }

// OfEveryNamespace reports whether every namespace can use the issuer.
func (r IssuerRef) OfEveryNamespace() bool {
	return r.Group == certManagerGroup && r.Kind == clusterIssuerKind
}

// SecretKey names a key in a Secret of the namespace of the Kafka.
type SecretKey struct{ Secret, Key string }

// CertManagerIssuer reads which issuer issues the certificates of a CA, and where the CA certificates to trust are.
// It uses none unless the type says so. A Kafka that Resolve has no errors about names all of it.
func CertManagerIssuer(ca *kafkav1.CertificateAuthority) (issuer IssuerRef, caCert SecretKey, uses bool) {
	if ca == nil || ca.Type != kafkav1.CertManagerAuthority {
		return IssuerRef{}, SecretKey{}, false
	}
	issuer = IssuerRef{Kind: issuerKind, Group: certManagerGroup}
	if ca.CertManager == nil {
		return issuer, SecretKey{}, true
	}
	if ref := ca.CertManager.IssuerRef; ref != nil {
		issuer = IssuerRef{Name: ref.Name, Kind: cmp.Or(ref.Kind, issuerKind), Group: cmp.Or(ref.Group, certManagerGroup)}
	}
	if source := ca.CertManager.CACert; source != nil {
		caCert = SecretKey{Secret: source.SecretName, Key: source.Certificate}
	}
	return issuer, caCert, true
}

// IdleAuthorityFields are the fields of the CAs of a Kafka that say nothing beside the type that they stand with:
// sorted paths that begin with spec.
func IdleAuthorityFields(spec kafkav1.KafkaSpec) []string {
	var idle []string
	for _, named := range authoritiesOf(spec) {
		if ca := named.ca; ca != nil && ca.Type != kafkav1.CertManagerAuthority && ca.CertManager != nil {
			idle = append(idle, named.field+".certManager")
		}
	}
	return idle
}

// checkCertManager refuses what the rules of the definitions refuse: definitions of another operator lack them.
func (r *resolver) checkCertManager() {
	for _, named := range authoritiesOf(r.in.Kafka.Spec) {
		issuer, caCert, uses := CertManagerIssuer(named.ca)
		if !uses {
			continue
		}
		if generates := named.ca.GenerateCertificateAuthority; generates == nil || *generates {
			r.errorf(r.kafkaObject(), "%s.generateCertificateAuthority must be false with type cert-manager.io, because the CA belongs to the issuer: set it to false", named.field)
		}
		if issuer.Name == "" {
			r.errorf(r.kafkaObject(), "%s.certManager.issuerRef.name must be set with type cert-manager.io, because that issuer issues the certificates: name an issuer", named.field)
		}
		if issuer.Group == certManagerGroup && issuer.Kind != issuerKind && issuer.Kind != clusterIssuerKind {
			r.errorf(r.kafkaObject(), "%s.certManager.issuerRef.kind is %q, and group cert-manager.io has no such issuers: set kind to Issuer or ClusterIssuer, or group to that of the issuer",
				named.field, issuer.Kind)
		}
		if caCert.Secret == "" || caCert.Key == "" {
			r.errorf(r.kafkaObject(), "%s.certManager.caCert must be set with type cert-manager.io, because it holds the CA certificates to trust: set secretName and certificate", named.field)
		}
	}
}

// fieldAuthority is a CA with the path of its field.
type fieldAuthority struct {
	field string
	ca    *kafkav1.CertificateAuthority
}

func authoritiesOf(spec kafkav1.KafkaSpec) []fieldAuthority {
	return []fieldAuthority{{"spec.clientsCa", spec.ClientsCa}, {"spec.clusterCa", spec.ClusterCa}}
}
