package controller

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// answer is an issuer that gives one answer, to the request of one Secret or to all; it signs what it is not about.
type answer struct {
	issuer.Issuer

	outcome issuer.Outcome
	failure error
	only    string
}

func (a answer) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	if a.only != "" && request.Name != a.only {
		return a.Issuer.Issue(ctx, request)
	}
	return a.outcome, a.failure
}

// answering is a reconciler whose issuer gives the answer, beside the Secrets that p has read.
func answering(a answer, c *applied) *Reconciler {
	stored := fake.NewClientBuilder().WithReturnManagedFields()
	for _, secret := range c.secrets {
		if secret.Name != "" {
			stored.WithObjects(&secret)
		}
	}
	return New(Options{
		Client: stored.Build(), Metrics: metrics.New(),
		Clock: clocktesting.NewFakePassiveClock(noon()),
		Issuer: func(ca pki.Authority) issuer.Issuer {
			a.Issuer = ownca.New(ca)
			return a
		},
	})
}

// unissued are the ways in which an issuer does not issue a certificate.
func unissued() map[string]answer {
	const why = "approve CertificateRequest my-dual-0"
	return map[string]answer{
		"it is pending":    {outcome: issuer.Pending{Since: noon(), Why: why}},
		"it is denied":     {outcome: issuer.Denied{Why: why}},
		"the issuer fails": {failure: errors.New(why)},
	}
}

func TestALeafThatIsNotIssuedLeavesTheStoredOneAsItIs(t *testing.T) {
	t.Parallel()
	ca, next, old := pkitest.CA(t, "cluster", noon()), pkitest.CA(t, "next", noon()), pkitest.CA(t, "old", noon())
	cross := func(ca pki.Authority) *x509.Certificate {
		certificate, err := pki.CrossSign(old, ca.Certificate(), noon())
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	ofOld := []trust.KeyID{evidence.KeyID(old.Certificate())}
	own, others := cross(ca), cross(next)
	first, _ := settled(t, signing(ca), leafBy(ca))
	for situation, c := range map[string]struct {
		change func(p *applied, request *leafRequest)
		// after is what the Secret shall hold after the leaf; found is false where it holds no leaf to keep.
		after []*x509.Certificate
		found bool
	}{
		"another CA shall sign, whose cross certificate is presented": {func(_ *applied, request *leafRequest) {
			request.identity = trust.Identity{Signer: evidence.KeyID(next.Certificate()), Cross: ofOld}
		}, []*x509.Certificate{own}, true},
		"its own CA shall sign, and another chain is presented": {func(_ *applied, request *leafRequest) {
			request.sans = pki.SANs{DNS: []string{"another.kafka.svc"}}
		}, nil, true},
		"its own CA shall sign, and the chain stays": {func(_ *applied, request *leafRequest) {
			request.sans, request.identity.Cross = pki.SANs{DNS: []string{"another.kafka.svc"}}, ofOld
		}, []*x509.Certificate{own}, true},
		"it has expired": {func(p *applied, request *leafRequest) {
			p.now, request.identity.Cross = first.Chain[0].NotAfter.Add(1), ofOld
		}, []*x509.Certificate{own}, true},
		"it is missing": {func(p *applied, _ *leafRequest) { delete(p.secrets, leafSecret) }, nil, false},
		"its key is another one": {func(p *applied, _ *leafRequest) {
			p.secrets[leafSecret].Data["key"] = ca.Key().PEM()
		}, nil, false},
	} {
		for name, a := range unissued() {
			t.Run(situation+", and "+name, func(t *testing.T) {
				t.Parallel()
				p, request := signing(ca, next), leafBy(ca)
				p.keep(first, own)
				p.clusterCA.Crosses, p.clusterCA.Snapshot.Now = []*x509.Certificate{own, others}, noon()
				p.clusterCA.Known = append(p.clusterCA.Known, old.Certificate())
				c.change(p, &request)

				got, found, err := answering(a, p).settleLeaf(t.Context(), p, request)

				want := pki.EncodeBundle(append([]*x509.Certificate{first.Chain[0]}, c.after...)...)
				if !c.found {
					want = nil
				}
				if err != nil || found != c.found || !bytes.Equal(got.Certificates, want) || found && !bytes.Equal(got.Key, first.Key) {
					t.Errorf("found %t (%v), %d certificates are presented, want %d", found, err, len(got.Chain), 1+len(c.after))
				}
				if len(p.issued) > 0 {
					t.Errorf("issued are %v", p.issued)
				}
				if len(p.notes) != 1 || p.notes[0].Reason != reasonCertificatePending || p.notes[0].Object != "Secret "+leafSecret ||
					!strings.Contains(p.notes[0].Message, "approve CertificateRequest my-dual-0") ||
					strings.Contains(p.notes[0].Message, "stays in use") != c.found {
					t.Errorf("it is said: %v", p.notes)
				}
			})
		}
	}
}

func TestAnIssuerThatMayAnswerLaterIsAskedAgain(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "cluster", noon())
	for name, want := range map[string]bool{"it is pending": true, "it is denied": false, "the issuer fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := signing(ca)
			if _, _, err := answering(unissued()[name], c).settleLeaf(t.Context(), c, leafBy(ca)); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(c.wakeAt, noon().Add(issuerPause)); got != want {
				t.Errorf("it is looked at again at %v", c.wakeAt)
			}
		})
	}
}

func TestAReconcileThatIsCancelledIsNotAnAnswerOfAnIssuer(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "cluster", noon())
	c := signing(ca)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := answering(unissued()["the issuer fails"], c).settleLeaf(ctx, c, leafBy(ca)); err == nil || len(c.notes) > 0 {
		t.Errorf("got %v, said is %v", err, c.notes)
	}
}

// waiting is a cluster of two nodes whose leaves are to be signed by the next CA, which all members are to trust
// beside the present one. Secrets hold leaves of the present CA.
func waiting(t *testing.T, secrets ...leafRequest) (*applied, []string, map[string]leaf) {
	t.Helper()
	ca, next := pkitest.CA(t, "cluster", noon()), pkitest.CA(t, "next", noon())
	c := signing(ca, next)
	c.cluster, c.clusterCA.kind = ofNodes(t, 2, nil), "Cluster"
	given := trust.Publication{Identity: trust.Identity{Signer: evidence.KeyID(next.Certificate())}}
	for _, anchor := range c.clusterCA.Known {
		given.Main = append(given.Main, evidence.AnchorID(anchor))
	}
	slices.Sort(given.Main)
	c.clusterCA.Plan.Publications = map[trust.MemberID]trust.Publication{
		"my-dual-0": given, "my-dual-1": given, "my-companion": given, evidence.OperatorMember: given,
	}
	leaves := map[string]leaf{}
	for _, request := range secrets {
		request.identity = trust.Identity{Signer: evidence.KeyID(ca.Certificate())}
		stored, _ := settled(t, signing(ca), request)
		leaves[request.secret] = stored
		c.secrets[request.secret] = corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: request.secret, ResourceVersion: "1"},
			Data:       map[string][]byte{request.certKey: stored.Certificates, request.keyKey: stored.Key},
		}
	}
	return c, idsOf(given.Main), leaves
}

func ofPod(pod string) leafRequest {
	return leafRequest{secret: pod, certKey: pod + ".crt", keyKey: pod + ".key", subject: pki.Subject{CommonName: "node"}, sans: pki.SANs{DNS: []string{"node"}}}
}

// publishes reports whether a Secret publishes the trust with the leaf.
func publishes(t *testing.T, c *applied, secret string, trusts []string, leaf *x509.Certificate) {
	t.Helper()
	published, err := publication.ParsePublication(c.secrets[secret].Data[agent.PublicationKey])
	if err != nil {
		t.Fatalf("nothing is published in Secret %s: %v", secret, err)
	}
	if got := published.Trust[publication.AgentRole]; !slices.Equal(got, trusts) {
		t.Errorf("Secret %s publishes the anchors %v, want %v", secret, got, trusts)
	}
	if got := published.Identities[publication.NodeIdentity]; got != pki.FingerprintOf(leaf).String() {
		t.Errorf("Secret %s publishes the leaf %s, want that in use", secret, got)
	}
}

// Trust must reach a node whose certificate is not issued: a rotation needs all of them.
func TestANodeWhoseLeafIsNotIssuedGetsItsTrust(t *testing.T) {
	t.Parallel()
	for name, a := range unissued() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, trusts, leaves := waiting(t, ofPod("my-dual-0"))
			a.only = "my-dual-0"

			if err := answering(a, c).applyNodeSecrets(t.Context(), c); err != nil {
				t.Fatal(err)
			}

			publishes(t, c, "my-dual-0", trusts, leaves["my-dual-0"].Chain[0])
			if node, given := c.nodes["my-dual-0"]; !given || !node.leaf.Equal(leaves["my-dual-0"].Chain[0]) {
				t.Errorf("it has no certificate, or another one (%t)", given)
			}
			other, given := c.nodes["my-dual-1"]
			if !given {
				t.Fatal("the other node has no certificate")
			}
			publishes(t, c, "my-dual-1", trusts, other.leaf)
		})
	}
}

func TestACompanionWhoseLeafIsNotIssuedGetsItsTrust(t *testing.T) {
	t.Parallel()
	at := observedCompanion{Companion: companion.Companion{Name: "my-companion", Secret: "my-companion-certs", CommonName: "my-companion", Certificate: "proxy", Host: "my-companion.kafka.svc"}}
	stored := ofPod(at.Secret)
	stored.certKey, stored.keyKey = "proxy.crt", "proxy.key"
	for name, a := range unissued() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, trusts, leaves := waiting(t, stored)

			_, given, err := answering(a, c).applyCompanionSecret(t.Context(), c, at)

			if err != nil || !given {
				t.Fatalf("nothing is published: %t, %v", given, err)
			}
			publishes(t, c, at.Secret, trusts, leaves[at.Secret].Chain[0])
		})
	}
}

func TestTheOperatorWhoseLeafIsNotIssuedKeepsItWithTheChainOfItsCA(t *testing.T) {
	t.Parallel()
	const secret = "my" + operatorSecretSuffix
	old := pkitest.CA(t, "old", noon())
	for name, a := range unissued() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It has another subject than it should, so that its own CA shall sign it again, with a cross certificate.
			c, _, leaves := waiting(t, leafRequest{secret: secret, certKey: operatorCertKey, keyKey: operatorKeyKey, subject: pki.Subject{CommonName: "other"}, sans: pki.SANs{DNS: []string{"other"}}})
			present := c.clusterCA.Keys[0]
			cross, err := pki.CrossSign(old, present.Certificate(), noon())
			if err != nil {
				t.Fatal(err)
			}
			c.clusterCA.Crosses, c.clusterCA.Known, c.clusterCA.Snapshot.Now = []*x509.Certificate{cross}, append(c.clusterCA.Known, old.Certificate()), noon()
			c.clusterCA.Plan.Publications[evidence.OperatorMember] = trust.Publication{
				Identity: trust.Identity{Signer: evidence.KeyID(present.Certificate()), Cross: []trust.KeyID{evidence.KeyID(old.Certificate())}},
			}

			if err := answering(a, c).applyOperatorIdentity(t.Context(), c); err != nil {
				t.Fatal(err)
			}

			leaf := leaves[secret].Chain[0]
			if known := c.operator.leaves(); len(known) != 1 || !known[0].Equal(leaf) {
				t.Errorf("it is known by %d certificates", len(known))
			}
			if got := c.secrets[secret].Data[operatorCertKey]; !bytes.Equal(got, pki.EncodeBundle(leaf, cross)) {
				t.Errorf("it presents %d bytes, want its certificate and the cross certificate", len(got))
			}
		})
	}
}
