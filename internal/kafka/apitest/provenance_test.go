package apitest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// claims makes an agent say, and prove by its bytes, that its server runs on a CA of
// its own.
func (w *world) claims(pod string, ca pki.Authority) {
	forged := leafBy(w.t, ca, "my-kafka", w.clock.Now())
	w.lying[pod] = func(report *publication.Report) {
		for _, cert := range []*x509.Certificate{ca.Certificate(), forged} {
			report.Certificates[fingerprint(cert)] = cert.Raw
		}
		for role, said := range report.Roles {
			said.Trusts, said.Presents, said.Chain = []string{fingerprint(ca.Certificate())}, fingerprint(forged), nil
			report.Roles[role] = said
		}
	}
}

// wantUnknown checks that a CA has got nowhere.
func (w *world) wantUnknown(ca *x509.Certificate) {
	w.t.Helper()
	for name, secret := range w.stored.secrets {
		for key, text := range secret {
			if slices.ContainsFunc(w.certs.in(text), ca.Equal) {
				w.t.Errorf("Secret %s holds it under %s", name, key)
			}
		}
	}
	if slices.ContainsFunc(w.access.Credentials.Anchors, ca.Equal) {
		w.t.Error("the operator accepts nodes by it")
	}
}

func TestAnAgentThatLiesHoldsUpItsOwnNodeOnly(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	own := newCA(t)
	w.claims("my-dual-1", own)
	w.replace(authorities.Cluster)
	w.run(80)

	w.wantUnknown(own.Certificate())
	w.wantCondition(clusterTrust, nextV)
	if !w.presents(2, nextV)() {
		t.Errorf("the others wait for the liar: %s", w.status(t.Context()))
	}
	w.wantReason("Warning", "UnknownAuthorityClaimed", "cluster-ca, clients-ca: my-dual-1", own.Certificate().Subject.String(), "delete the pod")
	told := slices.DeleteFunc(slices.Clone(w.events.reasons), func(reason string) bool { return reason != "UnknownAuthorityClaimed" })
	if len(told) != 1 {
		t.Errorf("%d events tell of the liar, want 1", len(told))
	}
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}

	delete(w.lying, "my-dual-1")
	w.settle()
	w.wantRemainder(firstV, nextV)
}

// held is the authority that the key Secret holds.
func (w *world) held(kind authorities.Kind) pki.Authority {
	w.t.Helper()
	key, err := pki.ParsePrivateKey(w.secret(kind.KeySecret(clusterName)).Data[authority.KeyKey])
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := pki.NewAuthority(w.caCertificate(kind), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return ca
}

// A public key is no secret: whoever has seen it can make a certificate about it.
func TestACertificateThatALiarForgesForAHeldKeyIsNotTakenForTheLostOne(t *testing.T) {
	t.Parallel()
	for kind, role := range map[authorities.Kind]publication.Role{
		authorities.Cluster: publication.AgentRole, authorities.Clients: "mtls-9094",
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			forged := pkitest.Changed(t, newCA(t), w.held(kind), func(c *x509.Certificate) {
				c.Subject, c.RawSubject = pkix.Name{CommonName: "forged"}, nil
				c.NotAfter = w.clock.Now().Add(7000 * authority.Day)
			}).Certificate()
			w.lying["my-dual-1"] = func(report *publication.Report) {
				said := report.Roles[role]
				report.Certificates[fingerprint(forged)] = forged.Raw
				said.Trusts = append(slices.Clone(said.Trusts), fingerprint(forged))
				report.Roles[role] = said
			}
			w.startOperator() // it has heard nothing yet

			w.lose(kind, theCertificate|theAnchors)
			w.run(20)

			w.wantUnknown(forged)
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("restarted: %v", w.faulty.podsDeleted)
			}
		})
	}
}

// putsIn is what whoever may write Secrets does to the one that pods mount.
func (w *world) putsIn(kind authorities.Kind, stranger *x509.Certificate) {
	w.t.Helper()
	name := pki.SHA1Name(stranger)
	w.replaceData(kind.TrustedCertsSecret(clusterName), name+".crt", pki.EncodeBundle(stranger))
	w.replaceData(kind.TrustedCertsSecret(clusterName), name+".state", []byte(trust.InUseAll))
}

func TestAStrangerAmongTheAnchorsIsNotTakenForALostAuthority(t *testing.T) {
	t.Parallel()
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		for _, lost := range []loss{theCertificate, theKey | theCertificate} {
			t.Run(fmt.Sprintf("%s, %s", kind, lost), func(t *testing.T) {
				t.Parallel()
				w := turning(t, 3)
				if lost.has(theKey) {
					w.classic()
				}
				w.stranger = caNamed(t, "evil", 5000*authority.Day).Certificate()
				w.putsIn(kind, w.stranger)
				w.lose(kind, lost)

				w.settle()

				w.wantUnknown(w.stranger)
			})
		}
	}
}

func TestAnchorsThatStoodThereBeforeTheClusterAreNobodys(t *testing.T) {
	t.Parallel()
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.stranger = caNamed(t, "evil", 5000*authority.Day).Certificate()
			w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: kind.TrustedCertsSecret(clusterName), Labels: map[string]string{"strimzi.io/cluster": clusterName},
			}})
			w.putsIn(kind, w.stranger)
			w.dualRole(3)

			w.settle()

			w.wantUnknown(w.stranger)
		})
	}
}

func TestACertificateThatALiarForgesForTheOldKeyDoesNotStopCrossSigning(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	old := w.held(authorities.Cluster)
	// Subject and key are those of the old CA, and it may cross-sign no CA.
	forged := pkitest.Limited(t, newCA(t), old).Certificate()
	w.lying["my-dual-1"] = func(report *publication.Report) {
		report.Certificates[fingerprint(forged)] = forged.Raw
		raft := report.Roles[contract.RaftRole]
		raft.Trusts = append(slices.Clone(raft.Trusts), fingerprint(forged))
		report.Roles[contract.RaftRole] = raft
	}
	w.replace(authorities.Cluster)
	w.settle()

	w.wantRemainder(firstV, nextV)
}
