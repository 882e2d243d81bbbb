package v1

// CertificateExpirationPolicy says what happens when a certificate of an authority is due.
// +kubebuilder:validation:Enum=renew-certificate;replace-key
type CertificateExpirationPolicy string

const (
	// RenewCertificate makes a new certificate for the same key. It is the default.
	RenewCertificate CertificateExpirationPolicy = "renew-certificate"
	// ReplaceKey makes a new key and a new certificate.
	ReplaceKey CertificateExpirationPolicy = "replace-key"
)

// KeyAlgorithm names the kind of keys of an authority and of the leaves that it signs.
// +kubebuilder:validation:Enum=RSA;ECDSA
type KeyAlgorithm string

const (
	// RSA keys are the default, as Strimzi's are.
	RSA KeyAlgorithm = "RSA"
	// ECDSA keys are smaller and much faster to make and to sign with.
	ECDSA KeyAlgorithm = "ECDSA"
)

// AuthorityType says what issues the certificates of an authority.
// +kubebuilder:validation:Enum=strimzi.io;cert-manager.io
type AuthorityType string

const (
	// StrimziAuthority signs with a key in a Secret of the cluster, the operator's or the user's. It is the default.
	StrimziAuthority AuthorityType = "strimzi.io"
	// CertManagerAuthority leaves keys and certificates to an issuer of cert-manager.
	CertManagerAuthority AuthorityType = "cert-manager.io"
)

// CertificateAuthority configures one of the two authorities of a Kafka cluster. The defaults are those
// of Strimzi: generated, owned by the Kafka, 365 days valid, renewed 30 days before the end with the same key.
//
// +kubebuilder:validation:XValidation:rule="(has(self.renewalDays) ? self.renewalDays : 30) < (has(self.validityDays) ? self.validityDays : 365)",message="renewalDays (30 when unset) must be less than validityDays (365 when unset): the certificate would be renewed without end",fieldPath=.renewalDays,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.keySize) || (has(self.keyAlgorithm) && self.keyAlgorithm == 'ECDSA' ? self.keySize in [256, 384, 521] : self.keySize in [2048, 3072, 4096])",message="keySize does not fit keyAlgorithm: RSA has 2048, 3072 or 4096, ECDSA has 256, 384 or 521",fieldPath=.keySize,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'cert-manager.io' || (has(self.generateCertificateAuthority) && !self.generateCertificateAuthority)",message="generateCertificateAuthority must be false with type cert-manager.io, because the CA belongs to the issuer",fieldPath=.generateCertificateAuthority,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'cert-manager.io' || (has(self.certManager) && has(self.certManager.issuerRef))",message="certManager.issuerRef.name must be set with type cert-manager.io, because that issuer issues the certificates",fieldPath=.certManager,reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'cert-manager.io' || (has(self.certManager) && has(self.certManager.caCert))",message="certManager.caCert must be set with type cert-manager.io, because it holds the CA certificates to trust",fieldPath=.certManager,reason=FieldValueRequired
type CertificateAuthority struct {
	// generateCertificateAuthority says whether the operator makes the authority. With false, the user
	// provides its Secrets. Unset means true.
	// +optional
	GenerateCertificateAuthority *bool `json:"generateCertificateAuthority,omitempty"`
	// generateSecretOwnerReference says whether the authority's Secrets go when the Kafka goes. Unset means true.
	// +optional
	GenerateSecretOwnerReference *bool `json:"generateSecretOwnerReference,omitempty"`
	// validityDays of generated certificates. Unset means 365.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ValidityDays *int32 `json:"validityDays,omitempty"`
	// renewalDays before its end, a generated certificate is renewed. Unset means 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RenewalDays *int32 `json:"renewalDays,omitempty"`
	// certificateExpirationPolicy says what happens when the authority's certificate is due. Unset means renew-certificate.
	// +optional
	CertificateExpirationPolicy CertificateExpirationPolicy `json:"certificateExpirationPolicy,omitempty"`
	// keyAlgorithm of generated keys; a field of Keyturn. Unset means RSA.
	// +optional
	KeyAlgorithm KeyAlgorithm `json:"keyAlgorithm,omitempty"`
	// keySize of generated keys in bits: of the authority's next key, and of the keys of leaves as they
	// are issued. Unset means 4096 and 2048 for RSA, 384 and 256 for ECDSA.
	// +optional
	KeySize *int32 `json:"keySize,omitempty"`
	// type says what issues certificates. Unset means strimzi.io.
	// +optional
	Type AuthorityType `json:"type,omitempty"`
	// certManager says which issuer of cert-manager issues certificates. It has an effect with type cert-manager.io only.
	// +optional
	CertManager *CertManager `json:"certManager,omitempty"`
}

// CertManager names what issues the certificates of an authority, and what is to be trusted for it.
type CertManager struct {
	// issuerRef names the issuer of all certificates. Required with type cert-manager.io.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`
	// caCert names the CA certificates to trust, one or several in PEM. Required with type cert-manager.io.
	// +optional
	CACert *CertSecretSource `json:"caCert,omitempty"`
}

// IssuerReference names an issuer of cert-manager, or of a controller that issues for it.
//
// +kubebuilder:validation:XValidation:rule="(has(self.group) && size(self.group) > 0 && self.group != 'cert-manager.io') || !has(self.kind) || self.kind in ['Issuer', 'ClusterIssuer']",message="kind must be Issuer or ClusterIssuer, because group cert-manager.io has no other issuers",fieldPath=.kind,reason=FieldValueInvalid
type IssuerReference struct {
	// name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// kind of the issuer. An Issuer is in the namespace of the Kafka. Unset means Issuer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// group of the issuer's API. Unset means cert-manager.io.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// CertSecretSource names certificates in a Secret of the same namespace.
type CertSecretSource struct {
	// secretName is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName,omitempty"`
	// certificate is the key in the Secret that holds the certificates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Certificate string `json:"certificate,omitempty"`
}
