package apitest

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// One authority cannot be used, and the other one goes on.

// ownClients is a running cluster with a clients CA of the user's.
func ownClients(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClientsCa.GenerateCertificateAuthority = new(false)
	ca := caNamed(t, "corporate clients", 1000*authority.Day)
	w.createCA(authorities.Clients, ca, "0")
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	return w, ca
}

func TestAClientsCAThatCannotBeUsedKeepsNothingElseFromBeingRenewed(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*world){
		"it is gone": func(w *world) {
			w.delete(&corev1.Secret{}, "my-clients-ca")
			w.delete(&corev1.Secret{}, "my-clients-ca-cert")
		},
		"it cannot be read": func(w *world) {
			w.replaceData("my-clients-ca-cert", authority.CertKey, []byte("no certificate"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, clients := ownClients(t)
			ca, leaf := w.caCertificate(authorities.Cluster), w.leafOf("my-dual-0")
			harm(w)

			w.clock.SetTime(nearTheEnd())
			w.settle()

			w.wantInvalid("my-clients-ca-cert")
			if w.caCertificate(authorities.Cluster).Equal(ca) || w.leafOf("my-dual-0").Equal(leaf) {
				t.Error("the cluster CA or the leaves were not renewed")
			}
			w.wantLoaded(w.caCertificate(authorities.Cluster))
			for _, s := range w.servers {
				trust := s.loaded["mtls-9094"].trust
				if len(trust) != 1 || !trust[0].Equal(clients.Certificate()) {
					t.Errorf("%s trusts %d clients CAs, want the one there was", s.pod, len(trust))
				}
			}
		})
	}
}

func TestAClusterCAThatCannotBeUsedKeepsTheClientsCAAndLeavesFromNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	ca, clients, leaf := w.caCertificate(authorities.Cluster), w.caCertificate(authorities.Clients), w.leafOf("my-dual-0")
	w.replaceData("my-cluster-ca-cert", authority.CertKey, []byte("no certificate"))
	w.nobodyReads()

	w.clock.SetTime(start().Add(340 * authority.Day))
	w.settle()

	w.wantInvalid("my-cluster-ca-cert", "ca.crt")
	w.wantReason("ClusterCATrust", "AuthorityMissing", "it is refused: Secret my-cluster-ca-cert: ca.crt: ")
	if w.caCertificate(authorities.Clients).Equal(clients) {
		t.Error("the clients CA was not renewed")
	}
	if got := w.secret("my-cluster-ca-cert").Data[authority.CertKey]; string(got) != "no certificate" {
		t.Error("the Secret that cannot be used was written")
	}

	w.replaceData("my-cluster-ca-cert", authority.CertKey, pki.EncodeBundle(ca))
	w.settle()

	w.wantCondition(condition.Ready)
	if w.leafOf("my-dual-0").Equal(leaf) {
		t.Error("the leaf was not renewed when the CA was put right")
	}
	w.wantRestarts(0)
}

func TestAUsersClusterCAThatIsGoneStillSignsWhatEnds(t *testing.T) {
	t.Parallel()
	w, ca := corporate(t)
	w.nobodyReads()
	leaf := w.leafOf("my-dual-0")
	w.delete(&corev1.Secret{}, "my-cluster-ca-cert")

	w.clock.SetTime(nearTheEnd())
	w.settle()

	w.wantInvalid("my-cluster-ca-cert")
	if renewed := w.leafOf("my-dual-0"); renewed.Equal(leaf) || !pki.SignedBy(renewed, ca.Certificate()) {
		t.Error("the leaf was not renewed, although the key of its CA is there")
	}
	w.wantRestarts(0)
}

func TestOneCAForNodesAndUsersIsRefusedUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	w, ca := corporate(t)
	w.users = nil
	w.issued[string(ca.Key().PEM())] = true
	before := w.anchors(authorities.Clients)
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": asked})
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clientsCa": map[string]any{"generateCertificateAuthority": false}}})
	w.replaceData("my-clients-ca", authority.KeyKey, ca.Key().PEM())
	w.replaceData("my-clients-ca-cert", authority.CertKey, pki.EncodeBundle(ca.Certificate()))
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": nil})
	w.settle()

	w.wantInvalid("my-clients-ca-cert", "corporate one", "keyturn.dev/allow-shared-ca")
	if after := w.anchors(authorities.Clients); !maps.Equal(before, after) {
		t.Errorf("anchors are %v, and nothing was allowed", after)
	}

	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{authority.AllowSharedAnnotation: asked})
	w.settle()

	w.wantReady()
	w.wantClientsCAs("corporate one")
}

func TestAUsersClusterCAThatIsGoneSignsForTheOperatorToo(t *testing.T) {
	t.Parallel()
	w, ca := corporate(t)
	w.nobodyReads()
	w.lockedOut = true
	leaf := w.leafOf("my-dual-0")
	w.delete(&corev1.Secret{}, "my-cluster-ca-cert")
	w.delete(&corev1.Secret{}, "my-cluster-operator-certs")

	w.clock.SetTime(nearTheEnd())
	w.run(20)

	w.wantInvalid("my-cluster-ca-cert")
	if renewed := w.leafOf("my-dual-0"); renewed.Equal(leaf) || !pki.SignedBy(renewed, ca.Certificate()) {
		t.Error("the leaf was not renewed, although the key of its CA is there")
	}
	if _, there := w.stored.secrets["my-cluster-operator-certs"]; !there {
		t.Error("the operator has no certificate, although the key of its CA is there")
	}
}

func TestACertificateOfTheClusterCAThatCannotBeReadKeepsTheClientsCAFromNothing(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.nobodyReads()
	w.lockedOut = true
	before := w.caCertificate(authorities.Clients)
	data := w.secret("my-cluster-ca-cert").Data[authority.CertKey]
	w.replaceData("my-cluster-ca-cert", authority.CertKey, data[:len(data)/2])
	w.delete(&corev1.Secret{}, "my-cluster-operator-certs")

	w.run(6)
	w.clock.SetTime(start().Add(340 * authority.Day))
	w.run(20)

	w.wantInvalid("my-cluster-ca-cert")
	if w.caCertificate(authorities.Clients).Equal(before) {
		t.Error("the clients CA was not renewed")
	}
	if _, there := w.stored.secrets["my-cluster-operator-certs"]; !there {
		t.Error("the operator has no certificate, although the key of its CA is there")
	}
	if !slices.ContainsFunc(w.getKafka().Status.Conditions, func(c condition.Condition) bool { return c.Type == "CertificatesValid" }) {
		t.Errorf("nothing is said of what expires: %s", w.status(t.Context()))
	}
}
