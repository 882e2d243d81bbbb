package apitest

import (
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// An issuer outside of the operator signs what users present. Nodes trust its CAs, and present nothing of them.

const clientsBundle = "company-clients-ca"

// fromIssuer is a clients CA that is an issuer's.
func fromIssuer() *kafkav1.CertificateAuthority {
	return &kafkav1.CertificateAuthority{
		Type: kafkav1.CertManagerAuthority, GenerateCertificateAuthority: new(false),
		CertManager: &kafkav1.CertManager{
			IssuerRef: &kafkav1.IssuerReference{Name: "company-clients"},
			CACert:    &kafkav1.CertSecretSource{SecretName: clientsBundle, Certificate: authority.CertKey},
		},
	}
}

// clientsOutside is a running cluster of three nodes with a cluster CA of its own and a clients CA of an issuer.
func clientsOutside(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	ca := caNamed(t, "company clients one", 400*authority.Day)
	w := newWorld(t)
	w.gates = featuregate.Gates{CertManagerCaType: featuregate.On}
	w.startOperator()
	w.bringsClientsBundle(ca.Certificate())
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClientsCa = fromIssuer()
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	w.certifies("the issuer", ca)
	return w, ca
}

func (w *world) bringsClientsBundle(certs ...*x509.Certificate) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: clientsBundle},
		Data:       map[string][]byte{authority.CertKey: pki.EncodeBundle(certs...)},
	})
}

// certifies adds a user with a certificate of a CA, which every node must accept from now on.
func (w *world) certifies(user string, ca pki.Authority) {
	w.t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		w.t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "user"}, Usages: []pki.Usage{pki.ClientAuth}, Validity: 390 * authority.Day, Now: w.clock.Now(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.users = append(w.users, talker{name: "a user of " + user, holdings: []holding{{moment: atPresent, chain: []*x509.Certificate{leaf}}}})
}

func (w *world) clientsGeneration() string {
	w.t.Helper()
	return w.secret("my-clients-ca-cert").Annotations[authorities.CertGenerationAnnotation]
}

func TestNodesTrustTheClientsCAOfAnIssuer(t *testing.T) {
	t.Parallel()
	w, ca := clientsOutside(t)

	w.wantReady()
	w.wantClientsCAs("company clients one")
	w.wantReason(clientsTrust, "Trusted")
	copied := w.secret("my-clients-ca-cert")
	if hash := copied.Annotations[authorities.CertHashAnnotation]; len(hash) != 64 || w.clientsGeneration() != "0" {
		t.Errorf("annotations are %v", copied.Annotations)
	}
	if got := w.first(copied.Data[authority.CertKey]); !got.Equal(ca.Certificate()) {
		t.Errorf("ca.crt has %q", got.Subject)
	}
	var key corev1.Secret
	if err := w.api.Get(t.Context(), w.key("my-clients-ca"), &key); !apierrors.IsNotFound(err) {
		t.Errorf("Secret my-clients-ca: %v, want none", err)
	}
	w.wantRestarts(0)
	writes := w.faulty.Written
	w.run(5)
	if w.faulty.Written != writes {
		t.Errorf("%d writes at rest", w.faulty.Written-writes)
	}
}

func TestAnOldClientsCAOfAnIssuerIsKeptWhileCertificatesOfItMayLive(t *testing.T) {
	t.Parallel()
	w, old := clientsOutside(t)
	next := caNamed(t, "company clients two", 1000*authority.Day)

	w.replaceData(clientsBundle, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.settle()
	w.certifies("the next CA", next)
	w.run(5)

	w.wantClientsCAs("company clients one", "company clients two")
	w.wantReason(clientsTrust, "WaitingForExpiry")
	if w.clientsGeneration() != "1" {
		t.Errorf("generation is %s, want 1", w.clientsGeneration())
	}
	dated := authority.DatedCertKey(old.Certificate())
	if len(w.secret("my-clients-ca-cert").Data[dated]) == 0 {
		t.Errorf("entry %s is missing", dated)
	}
	w.wantRestarts(0)

	w.users = w.users[1:]
	w.clock.SetTime(old.Certificate().NotAfter.Add(time.Hour))
	w.settle()
	w.wantClientsCAs("company clients two")
}

func TestANewKeyOfAClientsCAUnderTheSameNameIsTrustedBesideTheOldOne(t *testing.T) {
	t.Parallel()
	w, _ := clientsOutside(t)
	next := caNamed(t, "company clients one", 1000*authority.Day)

	w.replaceData(clientsBundle, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.settle()
	w.certifies("the next CA", next)
	w.run(5)

	w.wantClientsCAs("company clients one", "company clients one")
	w.wantReason(clientsTrust, "WaitingForExpiry")
}

func TestAnOldClientsCAOfAnIssuerIsRemovedWhenItIsDistrusted(t *testing.T) {
	t.Parallel()
	w, old := clientsOutside(t)
	next := caNamed(t, "company clients two", 1000*authority.Day)
	distrust := func() {
		w.annotate(&corev1.Secret{}, "my-clients-ca-cert", map[string]any{authority.DistrustAnnotation: authority.DistrustNow})
	}

	w.replaceData(clientsBundle, authority.CertKey, pki.EncodeBundle(old.Certificate(), next.Certificate()))
	distrust()
	w.settle()
	w.wantClientsCAs("company clients one", "company clients two")
	w.wantHeld("every CA of caCert stays trusted")

	w.replaceData(clientsBundle, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.users = nil
	w.settle()

	w.wantClientsCAs("company clients two")
	w.wantReason(clientsTrust, "Trusted")
	if annotations := w.secret("my-clients-ca-cert").Annotations; annotations[authority.DistrustAnnotation] != "" {
		t.Errorf("annotations are %v", annotations)
	}
}

func TestARenewedClientsCAOfAnIssuerWithTheSameKeyIsTrustedAtOnce(t *testing.T) {
	t.Parallel()
	w, old := clientsOutside(t)
	renewed, err := pki.RenewCA(old.Certificate(), old.Key(), 800*authority.Day, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.replaceData(clientsBundle, authority.CertKey, pki.EncodeBundle(renewed.Certificate()))
	w.settle()

	w.wantReady()
	if w.clientsGeneration() != "1" {
		t.Errorf("generation is %s, want 1", w.clientsGeneration())
	}
	w.wantRestarts(0)
}

func TestAClusterMovesItsClientsCAToAnIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startOperator()
	w.dualRole(3)
	w.settle()
	ca := caNamed(t, "company clients one", 1000*authority.Day)
	w.bringsClientsBundle(ca.Certificate())

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clientsCa": fromIssuer()}})
	w.run(5)
	w.wantHeld("feature gate CertManagerCaType, which is off")
	w.wantClientsCAs("clients-ca v0")

	w.gates.CertManagerCaType = featuregate.On
	w.startOperator()
	w.settle()
	w.certifies("the issuer", ca)
	w.run(5)

	w.wantReady()
	w.wantClientsCAs("clients-ca v0", "company clients one")
	w.wantRestarts(0)

	// Its copy stays in force with the gate off.
	w.gates = featuregate.Gates{}
	w.startOperator()
	next := caNamed(t, "company clients two", 1000*authority.Day)
	w.replaceData(clientsBundle, authority.CertKey, pki.EncodeBundle(ca.Certificate(), next.Certificate()))
	w.settle()
	w.wantHeld("feature gate CertManagerCaType is off")
	w.wantClientsCAs("clients-ca v0", "company clients one", "company clients two")
}

func TestOneCAOfAnIssuerForNodesAndUsersIsRefused(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	w.bringsClientsBundle(ca.Certificate())

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clientsCa": fromIssuer()}})
	w.run(5)

	w.wantHeld("so nodes would accept anyone with a user certificate as another node")
	w.wantClientsCAs("clients-ca v0")
}

func TestAnIssuerOfUsersThatOthersCanUseIsNamed(t *testing.T) {
	t.Parallel()
	w, _ := clientsOutside(t)

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clientsCa": map[string]any{
		"certManager": map[string]any{"issuerRef": map[string]any{"kind": "ClusterIssuer"}},
	}}})
	w.settle()

	w.wantHeld("SharedIssuer")
	w.wantHeld("as that of the user that it names")
	w.wantReady()
}
