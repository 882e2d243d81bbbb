package domains

import (
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Annotations of the Secrets of a CA.
const (
	// ForceRenewAnnotation of the certificate Secret asks for another certificate of the same key, ForceReplaceAnnotation of the
	// key Secret for another key.
	ForceRenewAnnotation   = "keyturn.dev/force-renew"
	ForceReplaceAnnotation = "keyturn.dev/force-replace"
	// ClientsMovedAnnotation of the key Secret of the client CA is a time as of RFC 3339: certificates of applications that
	// were issued before it are not waited for.
	ClientsMovedAnnotation = "keyturn.dev/clients-moved"

	certGenerationAnnotation = "keyturn.dev/ca-cert-generation"
	keyGenerationAnnotation  = "keyturn.dev/ca-key-generation"
)

// KeyReplaced is the reason of the event that another key signs.
const KeyReplaced authority.TransitionKind = "CaKeyReplaced"

// Of is the domain of a plane.
func Of(plane contract.Plane) publication.Domain { return publication.Domain(plane) }

// Names are what everything about the CA of a plane is called.
func Names(cluster model.Cluster, plane contract.Plane) *authority.Names {
	names := cluster.Names
	return &authority.Names{
		Authority: names.CAName(plane), Cluster: names.Cluster, Holders: authority.Members, Organization: names.Namespace,
		Leaf:      pki.Subject{CommonName: "member"},
		KeySecret: names.CAKeySecret(plane), CertSecret: names.CACertSecret(plane), TrustedCertsSecret: names.TrustedCertsSecret(plane),
		Field: "spec.TLS.dynamic." + string(plane) + "CA", Resource: "the EtcdCluster", Labels: model.ClusterUIDLabel + "=" + string(cluster.UID),
		KeyReplaced: KeyReplaced, CertGeneration: certGenerationAnnotation, KeyGeneration: keyGenerationAnnotation,
		ForceRenew: ForceRenewAnnotation, ForceReplace: ForceReplaceAnnotation,
	}
}

// renewalParts: a CA certificate is renewed when one part of so many of its life is left, as any certificate of a cluster.
const renewalParts = 3

// spec is what is asked of the CA of a plane.
func spec(cluster model.Cluster, plane contract.Plane) authority.Spec {
	validity := cluster.TLS.CAValidity[plane]
	return authority.Spec{ValidFor: validity, RenewBefore: validity / renewalParts, KeyAlgorithm: cluster.TLS.Algorithm}
}

// RestartMargin is how long before the end of a CA that is valid for so long etcd is started again at the latest, to load the
// renewed one: half of the time that a renewal leaves.
func RestartMargin(validity time.Duration) time.Duration { return validity / renewalParts / 2 }
