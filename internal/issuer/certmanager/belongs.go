package certmanager

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kube"
)

// unrelated says why a Certificate does not belong to the owner, and nothing when it does. Labels and a
// field manager count only for one without owner, because any client may use them.
func (o *Options) unrelated(certificate metav1.Object) string {
	references := certificate.GetOwnerReferences()
	for i := range references {
		if references[i].UID == o.Owner.UID {
			return ""
		}
	}
	switch {
	case len(references) > 0:
		return fmt.Sprintf("is owned by %s %s (uid %s)", references[0].Kind, references[0].Name, references[0].UID)
	case !o.selector().Matches(labels.Set(certificate.GetLabels())) || !kube.Applied(certificate, FieldOwner):
		return fmt.Sprintf("was not created for %s %s", o.Owner.Kind, o.Owner.Name)
	default:
		return ""
	}
}

// unrelatedSecret says why a Secret is not that of the Certificate of a name. Controllers copy annotations that people write
// to Secrets of their own, so that the annotation proves nothing for a Secret of another owner. A given one is its caller's.
func (o *Options) unrelatedSecret(secret metav1.Object, certificate string) string {
	of := secret.GetAnnotations()[CertificateNameAnnotation]
	other := o.otherOwner(secret)
	switch {
	case o.Placement == InOwnSecret && other != nil:
		return fmt.Sprintf("is owned by %s %s (uid %s)", other.Kind, other.Name, other.UID)
	case of == certificate, of == "" && o.Placement == InGivenSecret:
		return ""
	case of == "":
		return "was not created by cert-manager"
	default:
		return "belongs to Certificate " + of
	}
}

func notOwned(kind string, object metav1.Object, why string) issuer.Denied {
	return issuer.Denied{Why: fmt.Sprintf("%s %s/%s %s. It is not touched and no certificate is requested. "+
		"Delete it, or have its owner recreate it under another name.", kind, object.GetNamespace(), object.GetName(), why)}
}

// leftOver reports whether a Secret was written by cert-manager for a Certificate of the owner, to judge by its
// metadata, and returns the name of that Certificate.
func (o *Options) leftOver(secret metav1.Object) (certificate string, is bool) {
	certificate = secret.GetAnnotations()[CertificateNameAnnotation]
	if certificate == "" || secret.GetName() != certificate+SecretSuffix || !o.selector().Matches(labels.Set(secret.GetLabels())) {
		return "", false
	}
	return certificate, o.otherOwner(secret) == nil
}

// otherOwner is one that is neither the owner nor a Certificate, to which cert-manager itself may be set to refer; nil without any.
func (o *Options) otherOwner(secret metav1.Object) *metav1.OwnerReference {
	references := secret.GetOwnerReferences()
	for i := range references {
		if references[i].UID != o.Owner.UID && !isCertificate(references[i]) {
			return &references[i]
		}
	}
	return nil
}

func isCertificate(r metav1.OwnerReference) bool {
	return r.Kind == kindCertificate && strings.HasPrefix(r.APIVersion, Group+"/")
}
