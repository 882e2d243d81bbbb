package model

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
)

// SigningRequestOf is the request of the CA as a CertificateSigningRequest, which goes with the EtcdPKI.
func (o OperatorCA) SigningRequestOf(pki *keyturnv1alpha1.EtcdPKI, request []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.SigningRequest(), Labels: o.Labels(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: keyturnv1alpha1.GroupVersion.String(), Kind: keyturnv1alpha1.KindEtcdPKI, Name: pki.Name, UID: pki.UID,
			}},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: SignerName, ExpirationSeconds: new(int32(operatorCAValidity.Seconds())),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign},
		},
	}
}
