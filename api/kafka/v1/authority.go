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

// CertificateAuthority configures one of the two authorities of a Kafka cluster. The defaults are those
// of Strimzi: generated, owned by the Kafka, 365 days valid, renewed 30 days before the end with the same key.
//
// +kubebuilder:validation:XValidation:rule="(has(self.renewalDays) ? self.renewalDays : 30) < (has(self.validityDays) ? self.validityDays : 365)",message="renewalDays (30 when unset) must be less than validityDays (365 when unset): the certificate would be renewed without end",fieldPath=.renewalDays,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.keySize) || (has(self.keyAlgorithm) && self.keyAlgorithm == 'ECDSA' ? self.keySize in [256, 384, 521] : self.keySize in [2048, 3072, 4096])",message="keySize does not fit keyAlgorithm: RSA has 2048, 3072 or 4096, ECDSA has 256, 384 or 521",fieldPath=.keySize,reason=FieldValueInvalid
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
}
