package binding

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// Trust is where the CAs are that a client of a listener has to trust.
type Trust struct {
	// Secret has an empty name where the client needs none, or trusts them already.
	Secret types.NamespacedName
	// Field is the one to correct when there is no such Secret.
	Field string
	key   string
	read  func(trust Trust, secret Stored, now time.Time) ([]*x509.Certificate, error)
	// shown are the certificates that the Kafka shows for a listener with a certificate of its own.
	shown []string
	// listener is for messages.
	listener string
}

// TrustOf returns where the CAs are that a client of the listener has to trust. A reference of the KafkaAccess comes
// first: its author knows of a CA that is about to come. The namespace is that of the KafkaAccess.
func TrustOf(kafka *kafkav1.Kafka, listener *kafkav1.Listener, source Source, namespace string) Trust {
	trust := Trust{listener: listener.Name}
	switch reference := source.Truststore; {
	case !listener.TLS || reference != nil && reference.System:
	case reference != nil:
		trust.Secret = types.NamespacedName{Namespace: namespace, Name: reference.SecretName}
		trust.Field, trust.key, trust.read = "spec.kafka.truststoreRef", reference.Key, readReference
	case IsCustom(listener):
		own := listener.Configuration.BrokerCertChainAndKey
		trust.Secret = types.NamespacedName{Namespace: kafka.Namespace, Name: own.SecretName}
		trust.Field, trust.key, trust.read = "brokerCertChainAndKey of the listener", own.Certificate, readChain
		trust.shown = shownCertificates(kafka, listener.Name)
	default:
		trust.Secret = types.NamespacedName{Namespace: kafka.Namespace, Name: authorities.Cluster.CertSecret(kafka.Name)}
		trust.Field, trust.key, trust.read = "spec.kafka.name", caCertificate, readPublished
	}
	return trust
}

// IsCustom reports whether a listener presents a certificate of its own.
func IsCustom(listener *kafkav1.Listener) bool {
	return listener.Configuration != nil && listener.Configuration.BrokerCertChainAndKey != nil
}

func shownCertificates(kafka *kafkav1.Kafka, listener string) []string {
	at := slices.IndexFunc(kafka.Status.Listeners, func(l kafkav1.ListenerStatus) bool { return l.Name == listener })
	if at < 0 {
		return nil
	}
	return kafka.Status.Listeners[at].Certificates
}

// Certificates returns the CAs in PEM out of the Secret. The error is a *NotReadyError.
func (t Trust) Certificates(secret Stored, now time.Time) ([]byte, error) {
	certificates, err := t.read(t, secret, now)
	if err != nil {
		return nil, err
	}
	return pki.EncodeBundle(distinct(certificates)...), nil
}

// readPublished takes the CAs of all certificate entries, ca.crt first: while a CA is replaced, nodes still present
// certificates of one that is kept under its date. One that has expired is left out, except in ca.crt.
func readPublished(trust Trust, secret Stored, now time.Time) ([]*x509.Certificate, error) {
	published, err := secret.certificates(trust.key)
	if err != nil {
		return nil, err
	}
	if err := pki.CheckCA(published[0]); err != nil {
		return nil, unreadable(secret.Name, trust.key, err)
	}
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if key == trust.key || !strings.HasSuffix(key, certificateEntry) {
			continue
		}
		chain, err := secret.certificates(key)
		if err != nil {
			return nil, err
		}
		if now.Before(chain[0].NotAfter) {
			published = append(published, chain...)
		}
	}
	return slices.DeleteFunc(published, func(cert *x509.Certificate) bool { return pki.CheckCA(cert) != nil }), nil
}

// readReference takes all certificates of the entry.
func readReference(trust Trust, secret Stored, _ time.Time) ([]*x509.Certificate, error) {
	return secret.certificates(trust.key)
}

// readChain takes the self-signed CAs of a chain that have not expired, beside those of the one that nodes still present.
func readChain(trust Trust, secret Stored, now time.Time) ([]*x509.Certificate, error) {
	data, err := secret.value(trust.key)
	if err != nil {
		return nil, err
	}
	roots, err := rootsOf(data, now)
	if err != nil {
		return nil, unreadable(trust.Secret.Name, trust.key, err)
	}
	if len(roots) == 0 {
		return nil, &NotReadyError{
			Reason: TrustUnknown,
			Problem: fmt.Sprintf("Listener %s presents a certificate of its own, and its chain in Secret %s has no self-signed CA certificate that is valid.",
				trust.listener, trust.Secret.Name),
			Remedy: fmt.Sprintf("Append the CA certificate that clients trust to the key %s of Secret %s in namespace %s, or set spec.kafka.truststoreRef "+
				"to a Secret and a key with that certificate, or to system: true.", trust.key, trust.Secret.Name, trust.Secret.Namespace),
		}
	}
	for _, shown := range trust.shown {
		// What cannot be read is left out: the chain of the Secret has a CA.
		if presented, err := rootsOf([]byte(shown), now); err == nil {
			roots = append(roots, presented...)
		}
	}
	return roots, nil
}

func rootsOf(chain []byte, now time.Time) ([]*x509.Certificate, error) {
	certificates, err := pki.ParseChain(chain)
	if err != nil {
		return nil, fmt.Errorf("reading a chain: %w", err)
	}
	return slices.DeleteFunc(certificates, func(cert *x509.Certificate) bool {
		return pki.CheckCA(cert) != nil || !pki.IssuedBy(cert, cert) || now.After(cert.NotAfter)
	}), nil
}

func distinct(certificates []*x509.Certificate) []*x509.Certificate {
	kept := make([]*x509.Certificate, 0, len(certificates))
	for _, certificate := range certificates {
		if !slices.ContainsFunc(kept, certificate.Equal) {
			kept = append(kept, certificate)
		}
	}
	return kept
}

// unreadable is the problem of an entry of a Secret that cannot be copied.
func unreadable(secret, key string, why error) error {
	return &NotReadyError{
		Reason:  IncompleteSecret,
		Problem: fmt.Sprintf("The key %s of Secret %s cannot be used: %s.", key, secret, excerpt.Of(why.Error(), excerpt.Foreign)),
		Remedy:  "Wait until its operator has written the key, or correct the key if the Secret is yours.",
	}
}
