package controller

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	domains "github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/trust"
)

// leafSecret is the Secret of the node that the tests here are about.
const leafSecret = "my-dual-0"

// signing is a reconcile over a cluster whose cluster CA is the first of the authorities, with
// the keys of all.
func signing(cas ...pki.Authority) *applied {
	kafka := smallKafka()
	kafka.Spec.ClusterCa = &kafkav1.CertificateAuthority{KeyAlgorithm: kafkav1.KeyAlgorithm(pki.ECDSA), ValidityDays: new(int32(100)), RenewalDays: new(int32(30))}
	c := clusterOf(kafka, nil)
	c.secrets, c.issued = map[string]corev1.Secret{}, map[string]authority.LeafDecision{}
	c.window = authority.Window{Open: true}
	c.clusterCA.Keys, c.clusterCA.Certificate, c.clusterCA.CertGeneration = cas, cas[0].Certificate(), 4
	for _, ca := range cas {
		c.clusterCA.Known = append(c.clusterCA.Known, ca.Certificate())
	}
	return c
}

func leafBy(ca pki.Authority) leafRequest {
	return leafRequest{
		secret: leafSecret, certKey: "crt", keyKey: "key", subject: pki.Subject{CommonName: "node"},
		sans: pki.SANs{DNS: []string{"node.kafka.svc"}}, identity: trust.Identity{Signer: evidence.KeyID(ca.Certificate())},
	}
}

func settled(t *testing.T, c *applied, request leafRequest) (leaf, bool) {
	t.Helper()
	r := New(Options{Metrics: metrics.New()})
	got, found, err := r.settleLeaf(t.Context(), c, request)
	if err != nil {
		t.Fatal(err)
	}
	return got, found
}

// keep stores a leaf as a reconcile writes it, with other certificates after it.
func (c *applied) keep(l leaf, after ...*x509.Certificate) {
	c.secrets[leafSecret] = corev1.Secret{Data: map[string][]byte{
		"crt": slices.Concat(l.Certificates, pki.EncodeBundle(after...)), "key": l.Key,
	}}
}

func TestALeafThatIsMissingIsIssuedAndStays(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "cluster", noon())
	c := signing(ca)

	first, found := settled(t, c, leafBy(ca))

	if !found || !pki.IssuedBy(first.Chain[0], ca.Certificate()) || first.generation != 4 {
		t.Fatalf("found %t, a leaf of generation %s", found, first.generation)
	}
	if decision, told := c.issued[leafSecret]; !told || decision.Reason != authority.LeafMissing {
		t.Errorf("it is told of as %s", decision.Reason)
	}

	c = signing(ca)
	c.keep(first)
	again, found := settled(t, c, leafBy(ca))

	if !found || !bytes.Equal(again.Certificates, first.Certificates) || !bytes.Equal(again.Key, first.Key) || again.generation != 4 {
		t.Errorf("found %t, and it is another one of generation %s", found, again.generation)
	}
	if len(c.issued) > 0 || len(c.notes) > 0 {
		t.Errorf("told are %v and %v", c.issued, c.notes)
	}
	if renewal := first.Chain[0].NotAfter.AddDate(0, 0, -30); !slices.Equal(c.wakeAt, []time.Time{renewal}) {
		t.Errorf("it is looked at again at %v, want %s", c.wakeAt, renewal)
	}
}

func TestALeafThatIsDueWaitsForAWindowAndSaysSo(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "cluster", noon())
	p := signing(ca)
	first, _ := settled(t, p, leafBy(ca))
	renewal := first.Chain[0].NotAfter.AddDate(0, 0, -30)
	for name, c := range map[string]struct {
		next, latest time.Time
	}{
		"the next one is known": {renewal.Add(time.Hour), renewal.Add(time.Hour)},
		"there is no next one":  {time.Time{}, renewal.AddDate(0, 0, 29)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := signing(ca)
			p.keep(first)
			p.now, p.window = renewal.Add(time.Minute), authority.Window{Next: c.next}
			says := "in the next maintenance window, or at " + c.latest.Format(time.RFC3339) + " at the latest"

			got, found := settled(t, p, leafBy(ca))

			if !found || !bytes.Equal(got.Certificates, first.Certificates) {
				t.Error("it was replaced while no window is open")
			}
			if len(p.notes) != 1 || p.notes[0].Reason != reasonCertificatePostponed || p.notes[0].Object != "Secret "+leafSecret || !strings.HasSuffix(p.notes[0].Message, says) {
				t.Errorf("it is said: %v, want %q", p.notes, says)
			}
			if !slices.Contains(p.wakeAt, c.latest) {
				t.Errorf("it is looked at again at %v, want %s, too", p.wakeAt, c.latest)
			}
		})
	}
}

func TestALeafThatNobodyCanSignStaysAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	ca, other := pkitest.CA(t, "cluster", noon()), pkitest.CA(t, "lost", noon())
	p := signing(ca)
	first, _ := settled(t, p, leafBy(ca))
	for name, c := range map[string]struct {
		change func(p *applied, request *leafRequest)
		found  bool
		says   string
	}{
		"it is missing": {
			func(p *applied, request *leafRequest) {
				request.identity = leafBy(other).identity
				delete(p.secrets, leafSecret)
			},
			false, "the certificate is missing, and none can be issued that other nodes trust",
		},
		"it is for another name": {
			func(_ *applied, request *leafRequest) {
				request.identity, request.sans = leafBy(other).identity, pki.SANs{DNS: []string{"another.kafka.svc"}}
			},
			true, "the existing one stays in use",
		},
		"it is due, and has to wait for others": {
			func(p *applied, request *leafRequest) {
				p.now, request.waits = noon().AddDate(0, 0, 71), "it waits until all nodes use the same CA"
			},
			true, "it waits until all nodes use the same CA",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, request := signing(ca), leafBy(ca)
			p.keep(first)
			c.change(p, &request)

			got, found := settled(t, p, request)

			if found != c.found || found && !bytes.Equal(got.Certificates, first.Certificates) || len(p.issued) > 0 {
				t.Errorf("found %t, issued are %v", found, p.issued)
			}
			if len(p.notes) != 1 || p.notes[0].Reason != reasonCertificateHeld || !strings.Contains(p.notes[0].Message, c.says) {
				t.Errorf("it is said: %v, want %q", p.notes, c.says)
			}
		})
	}
}

func TestNothingIsIssuedForASecretOfSomebodyElse(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "cluster", noon())
	c := signing(ca)
	c.foreign = []foreignObject{{objectID: secretObject(leafSecret)}}
	if _, found := settled(t, c, leafBy(ca)); found || len(c.issued) > 0 || len(c.notes) > 0 {
		t.Errorf("found %t, issued are %v, said is %v", found, c.issued, c.notes)
	}
}

func TestWhatIsPresentedAfterALeafChangesWithoutANewLeaf(t *testing.T) {
	t.Parallel()
	root := pkitest.CA(t, "root", noon())
	issuing := pkitest.Limited(t, root, pkitest.CA(t, "issuing", noon()))
	ca, err := pki.NewAuthority(issuing.Certificate(), issuing.Key(), issuing.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	p := signing(ca)
	first, _ := settled(t, p, leafBy(ca))
	own := false
	for name, c := range map[string]struct {
		change func(p *applied)
		after  []*x509.Certificate
		want   []*x509.Certificate
	}{
		"something is there that nobody needs": {func(*applied) {}, []*x509.Certificate{root.Certificate()}, nil},
		"the CA is refused, so nobody can tell": {
			func(p *applied) { p.clusterCA.Held = true }, []*x509.Certificate{root.Certificate()}, []*x509.Certificate{root.Certificate()},
		},
		"the CA is a user's and below another": {
			func(p *applied) { p.kafka.Spec.ClusterCa.GenerateCertificateAuthority = &own }, nil, []*x509.Certificate{ca.Certificate()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := signing(ca)
			p.keep(first, c.after...)
			c.change(p)

			got, found := settled(t, p, leafBy(ca))

			want := append([]*x509.Certificate{first.Chain[0]}, c.want...)
			if !found || !slices.EqualFunc(got.Chain, want, (*x509.Certificate).Equal) || !bytes.Equal(got.Certificates, pki.EncodeBundle(want...)) || !bytes.Equal(got.Key, first.Key) {
				t.Errorf("found %t, %d certificates are presented, want %d, of the same key", found, len(got.Chain), len(want))
			}
			if len(p.issued) > 0 {
				t.Errorf("issued are %v", p.issued)
			}
		})
	}
}

// Who trusts the old CA alone verifies a leaf by way of what that has signed.
func TestWhatTheOldCAHasSignedIsPresentedAfterALeaf(t *testing.T) {
	t.Parallel()
	ca, old := pkitest.CA(t, "cluster", noon()), pkitest.CA(t, "old", noon())
	cross, err := pki.CrossSign(old, ca.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	c, request := signing(ca, old), leafBy(ca)
	c.clusterCA.Crosses, c.clusterCA.Snapshot.Now = []*x509.Certificate{cross}, noon()
	request.identity.Cross = []trust.KeyID{evidence.KeyID(old.Certificate())}

	first, _ := settled(t, c, request)
	if len(first.Chain) != 2 || !first.Chain[1].Equal(cross) {
		t.Fatalf("%d certificates are presented, want the leaf and the cross certificate", len(first.Chain))
	}

	// The old CA is gone, and nobody but the node has what it had signed.
	c.keep(first)
	c.clusterCA.Crosses = nil
	if again, _ := settled(t, c, request); !bytes.Equal(again.Certificates, first.Certificates) {
		t.Errorf("%d certificates are presented then, want the same", len(again.Chain))
	}
}

// While nobody can write its Secret, the operator goes on with what that holds.
func TestTheOperatorKeepsItsCertificateWhereNoneIsIssued(t *testing.T) {
	t.Parallel()
	const secret = "my" + operatorSecretSuffix
	ca := pkitest.CA(t, "cluster", noon())
	own, _ := settled(t, signing(ca), leafBy(ca))
	for name, data := range map[string]map[string][]byte{
		"it has one": {operatorCertKey: own.Certificates, operatorKeyKey: own.Key}, "it has none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := signing(ca)
			c.secrets[secret], c.foreign = corev1.Secret{Data: data}, []foreignObject{{objectID: secretObject(secret)}}

			err := New(Options{Metrics: metrics.New()}).applyOperatorIdentity(t.Context(), c)

			leaves := c.operator.leaves()
			if kept := len(leaves) == 1 && leaves[0].Equal(own.Chain[0]); err != nil || kept != (data != nil) || len(leaves) > 1 {
				t.Errorf("it is known by %d certificates (%v)", len(leaves), err)
			}
		})
	}
}

func TestTheOperatorsLeafIsSignedByWhoCanIfItIsLost(t *testing.T) {
	t.Parallel()
	present, retired, lost, stranger := pkitest.CA(t, "present", noon()), pkitest.CA(t, "retired", noon()), pkitest.CA(t, "lost", noon()), pkitest.CA(t, "stranger", noon())
	key := func(ca pki.Authority) trust.KeyID { return evidence.KeyID(ca.Certificate()) }
	for name, c := range map[string]struct {
		planned pki.Authority
		// keys are at hand, and the leaf that is stored was signed by by, if any.
		keys []pki.Authority
		by   *pki.Authority
		want pki.Authority
	}{
		"who should can":                               {present, []pki.Authority{retired, present}, nil, present},
		"who should can, whoever signed it":            {present, []pki.Authority{retired, present}, &retired, present},
		"who should cannot, and nodes know it":         {lost, []pki.Authority{retired, present}, &lost, lost},
		"who should cannot, and it is lost":            {lost, []pki.Authority{retired, present}, nil, present},
		"who should cannot, and it is a stranger's":    {lost, []pki.Authority{retired, present}, &stranger, present},
		"who should cannot, and another key is left":   {lost, []pki.Authority{retired}, nil, retired},
		"who should cannot, and no key at all is left": {lost, nil, nil, lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := signing(present, retired, lost)
			p.clusterCA.Keys = c.keys
			p.clusterCA.Plan.Publications = map[trust.MemberID]trust.Publication{evidence.OperatorMember: {Identity: trust.Identity{Signer: key(c.planned)}}}
			if c.by != nil {
				leaf, _ := settled(t, signing(*c.by), leafBy(*c.by))
				p.secrets["my"+operatorSecretSuffix] = corev1.Secret{Data: map[string][]byte{operatorCertKey: leaf.Certificates, operatorKeyKey: leaf.Key}}
			}
			if got := p.operatorIdentity().Signer; got != key(c.want) {
				t.Errorf("it is signed by %.8s, want %q, %.8s", got, c.want.Certificate().Subject, key(c.want))
			}
		})
	}
}

// Everybody has to be sure of the operator's certificate: whoever has none yet that all
// nodes trust keeps the one he has.
func TestTheOperatorsLeafWaitsUntilAllUseTheCAOfItsSigner(t *testing.T) {
	t.Parallel()
	const waits = "it waits until all nodes use the same CA"
	d := &domain{Decided: domains.Decided{Plan: trust.Plan{States: map[trust.AnchorID]trust.State{"old": trust.InUseAny, "renewed": trust.InUseAll, "new": trust.TrustedUnused}}}}
	d.Snapshot.Anchors = []trust.Anchor{{ID: "old", Key: "1"}, {ID: "renewed", Key: "1"}, {ID: "new", Key: "2"}}
	for key, want := range map[trust.KeyID]string{"1": "", "2": waits, "3": waits} {
		if got := d.operatorWaitsFor(key); got != want {
			t.Errorf("of key %s it says %q, want %q", key, got, want)
		}
	}
}
