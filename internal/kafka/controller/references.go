package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// What a user brings for a cluster need not carry any label of ours. The Kafka names it,
// and it is watched by that name.

func secretResource() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("secrets")
}

// referencedSecrets are the names of the Secrets that a user brings for the cluster:
// certificates of listeners, and the CAs that the operator does not make. Each is
// there once, in order.
func referencedSecrets(kafka *kafkav1.Kafka) []string {
	o := &observation{kafka: *kafka}
	var names []string
	for i := range kafka.Spec.Kafka.Listeners {
		if custom, refers := customCertificate(&kafka.Spec.Kafka.Listeners[i]); refers && canExist(custom.SecretName) {
			names = append(names, custom.SecretName)
		}
	}
	for _, kind := range kinds() {
		if model.CASpec(o.caSpec(kind)).Source == authority.UserProvided {
			names = append(names, kind.KeySecret(kafka.Name), kind.CertSecret(kafka.Name))
		}
		if _, caCert, uses := model.CertManagerIssuer(o.caSpec(kind)); uses && canExist(caCert.Secret) {
			names = append(names, caCert.Secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// canExist reports whether an object can have a name.
func canExist(name string) bool {
	return name != "" && len(content.IsPathSegmentName(name)) == 0
}

// customCertificate returns the reference to a listener's own certificate.
func customCertificate(listener *kafkav1.Listener) (kafkav1.CertAndKeySecretSource, bool) {
	if listener.Configuration == nil || listener.Configuration.BrokerCertChainAndKey == nil {
		return kafkav1.CertAndKeySecretSource{}, false
	}
	return *listener.Configuration.BrokerCertChainAndKey, true
}
