package domains_test

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// operator is a CA of the operator, which outlives those that it signs.
func operator(t *testing.T) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: "operator"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 87600 * time.Hour, Now: noon()})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func cluster() model.Cluster {
	c, _ := model.Resolve(&etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: "my-cluster", UID: "1"}, Spec: etcdv1beta2.EtcdClusterSpec{Size: 3}}, model.Settings{ClusterDomain: "cluster.local"})
	return c
}

// seen is a cluster with one member, which trusts the CA of each plane.
func seen(t *testing.T, parent pki.Authority) *domains.Seen {
	t.Helper()
	s := &domains.Seen{Cluster: cluster(), Secrets: map[contract.Plane]domains.Secrets{}, Ledger: enroll.Ledger{}, Clients: map[string]string{"uid-1": "EtcdAccess shop/my-app"}, Now: noon().Add(time.Hour)}
	member := domains.Member{
		Name: "my-cluster-0", Published: publication.Publication{Revision: 1, Trust: map[publication.Role][]string{}},
		Given: publication.Given{}, Chains: map[contract.Plane][]*x509.Certificate{}, State: evidence.Absent,
	}
	for _, plane := range contract.Planes() {
		key, err := pki.GenerateKey(pki.DefaultCAKey(pki.ECDSA))
		if err != nil {
			t.Fatal(err)
		}
		ca, err := pki.SignCA(parent, key, pki.CASpec{Subject: pki.Subject{Organization: "etcd", CommonName: "my-cluster " + string(plane) + "-ca v0"}, Validity: 43800 * time.Hour, Now: noon(), PermittedDNS: s.Cluster.Domains(plane)})
		if err != nil {
			t.Fatal(err)
		}
		s.Secrets[plane] = domains.Secrets{
			Key:  authority.Stored{Exists: true, Data: map[string][]byte{authority.KeyKey: key.PEM()}},
			Cert: authority.Stored{Exists: true, Data: map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}},
		}
		named := []string{pki.FingerprintOf(ca.Certificate()).String()}
		member.Published.Trust[plane.Role()], member.Given[domains.Of(plane)] = named, named
	}
	s.Members = []domains.Member{member}
	for _, plane := range contract.Planes() {
		s.Secrets[plane] = written(t, s, plane)
	}
	return s
}

// written are the Secrets of a plane after they were decided about once.
func written(t *testing.T, s *domains.Seen, plane contract.Plane) domains.Secrets {
	t.Helper()
	return writtenBy(t, s, plane, decide(t, s, plane))
}

// writtenBy are the Secrets of a plane after a decision.
func writtenBy(t *testing.T, s *domains.Seen, plane contract.Plane, decided *domain.Decided) domains.Secrets {
	t.Helper()
	secrets, _, err := decided.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	after := s.Secrets[plane]
	for _, secret := range secrets {
		stored := authority.Stored{Exists: true, Data: secret.Data, Annotations: secret.Annotations}
		switch secret.Name {
		case s.Cluster.Names.CAKeySecret(plane):
			after.Key = stored
		case s.Cluster.Names.CACertSecret(plane):
			after.Cert = stored
		case s.Cluster.Names.TrustedCertsSecret(plane):
			after.Trusted = stored
		}
	}
	return after
}

func TestCertificatesOfApplicationsAreWaitedForUntilTheyHaveMoved(t *testing.T) {
	t.Parallel()
	parent, begin := operator(t), noon().Add(10*time.Minute)
	at := func(after time.Duration) string { return begin.Add(after).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		annotations map[string]string
		waits       bool
		// issued is when the certificates were, after the CA was made or before it was renewed.
		issued time.Duration
	}{
		"no annotation says that they have":       {nil, true, 0},
		"they have since":                         {map[string]string{domains.ClientsMovedAnnotation: at(time.Minute)}, false, 0},
		"others have before":                      {map[string]string{domains.ClientsMovedAnnotation: at(-time.Minute)}, true, 0},
		"that was about a former CA":              {map[string]string{domains.ClientsMovedAnnotation: at(-time.Hour)}, true, -2 * time.Hour},
		"they will have":                          {map[string]string{domains.ClientsMovedAnnotation: at(24 * time.Hour)}, true, 0},
		"that is no time":                         {map[string]string{domains.ClientsMovedAnnotation: "now"}, true, 0},
		"their CA is distrusted":                  {map[string]string{authority.DistrustAnnotation: authority.DistrustNow}, false, 0},
		"their CA is distrusted by another value": {map[string]string{authority.DistrustAnnotation: "true"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seen(t, parent)
			ca := pki.FingerprintOf(authority.PublishedCAs(s.Secrets[contract.ClientPlane].Cert.Data)[0]).String()
			end := s.Now.Add(24 * time.Hour)
			s.Ledger["1"] = enroll.Issued{Plane: contract.ClientPlane, CA: ca, PodUID: "uid-1", Namespace: "shop", IssuedAt: begin.Add(test.issued), NotAfter: end.Add(-time.Hour)}
			s.Ledger["2"] = enroll.Issued{Plane: contract.ClientPlane, CA: ca, PodUID: "uid-1", Namespace: "shop", IssuedAt: begin.Add(test.issued), NotAfter: end}
			s.Ledger["3"] = enroll.Issued{Plane: contract.ClientPlane, CA: ca, PodUID: "uid-of-a-member", IssuedAt: begin, NotAfter: end.Add(time.Hour)}
			s.Ledger["4"] = enroll.Issued{PodUID: "uid-that-is-gone", Namespace: "shop", IssuedAt: begin}
			secrets := s.Secrets[contract.ClientPlane]
			secrets.Key.Annotations = test.annotations
			s.Secrets[contract.ClientPlane] = secrets
			for _, plane := range contract.Planes() {
				want := []time.Time{}
				if test.waits && plane == contract.ClientPlane {
					want = append(want, end)
				}
				if ends := decide(t, s, plane).HoldersEnd(); !slices.Equal(ends, want) {
					t.Errorf("the %s plane waits until %v, want %v", plane, ends, want)
				}
			}
		})
	}
}

func TestEachMemberThatARotationWaitsForIsNamed(t *testing.T) {
	t.Parallel()
	s := seen(t, operator(t))
	for i := range 3 {
		member := s.Members[0]
		member.Name, member.State = fmt.Sprintf("my-cluster-%d", i+1), evidence.Unknown
		s.Members = append(s.Members, member)
	}
	secrets := s.Secrets[contract.PeerPlane]
	secrets.Key.Annotations = map[string]string{domains.ForceReplaceAnnotation: "true"}
	s.Secrets[contract.PeerPlane] = secrets
	making := s.Making(contract.PeerPlane)
	making.Parent = operator(t)
	key, err := pki.GenerateKey(pki.DefaultCAKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	making.Key = key
	decided, err := s.Decide(contract.PeerPlane, making)
	if err != nil {
		t.Fatal(err)
	}
	s.Secrets[contract.PeerPlane] = writtenBy(t, s, contract.PeerPlane, decided)
	says := s.Rotating(domains.Decided{contract.PeerPlane: decide(t, s, contract.PeerPlane)})
	for _, member := range s.Members[1:] {
		if !strings.Contains(says, member.Name) {
			t.Errorf("%s is not named: %s", member.Name, says)
		}
	}
	t.Log(says)
}

func decide(t *testing.T, s *domains.Seen, plane contract.Plane) *domain.Decided {
	t.Helper()
	decided, err := s.Decide(plane, s.Making(plane))
	if err != nil {
		t.Fatal(err)
	}
	return decided
}

// The certificate of the CA by which an application's was issued may have been renewed since, and is known no more.
func TestACertificateOfARenewedCAIsWaitedForWhenTheKeyIsReplaced(t *testing.T) {
	t.Parallel()
	parent := operator(t)
	s := seen(t, parent)
	s.Ledger["1"] = enroll.Issued{
		Plane: contract.ClientPlane, CA: strings.Repeat("a", 64), PodUID: "uid-1", Namespace: "shop", IssuedAt: noon(), NotAfter: s.Now.Add(24 * time.Hour),
	}
	if former := decide(t, s, contract.ClientPlane).Former(); len(former) > 0 {
		t.Fatalf("%v is waited for while there is one CA", former)
	}
	secrets := s.Secrets[contract.ClientPlane]
	secrets.Key.Annotations = map[string]string{domains.ForceReplaceAnnotation: "true"}
	s.Secrets[contract.ClientPlane] = secrets
	s.Secrets[contract.ClientPlane] = replaced(t, s, contract.ClientPlane, parent)
	if former := decide(t, s, contract.ClientPlane).Former(); len(former) != 1 || !strings.Contains(string(former[0]), "EtcdAccess shop/my-app") {
		t.Errorf("after a replacement %v is waited for, want the application", former)
	}
}

// replaced are the Secrets of a plane once another CA signs, below a parent.
func replaced(t *testing.T, s *domains.Seen, plane contract.Plane, parent pki.Authority) domains.Secrets {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultCAKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // pending, published, signing
		making := s.Making(plane)
		making.Parent, making.Key = parent, key
		decided, err := s.Decide(plane, making)
		if err != nil {
			t.Fatal(err)
		}
		s.Secrets[plane] = writtenBy(t, s, plane, decided)
	}
	return s.Secrets[plane]
}

func TestAMemberIsGivenTheCAThatThereIs(t *testing.T) {
	t.Parallel()
	s := seen(t, operator(t))
	decided := domains.Decided{}
	for _, plane := range contract.Planes() {
		decided[plane] = decide(t, s, plane)
	}
	if !decided.Has("my-cluster-0") || decided.Has("my-cluster-1") || s.Rotating(decided) != "" || len(decided.Restarts(s.Now)) > 0 {
		t.Fatalf("it has the member: %t, and one that is not known: %t; %s", decided.Has("my-cluster-0"), decided.Has("my-cluster-1"), s.Rotating(decided))
	}
	for _, plane := range contract.Planes() {
		ca := authority.PublishedCAs(s.Secrets[plane].Cert.Data)[0]
		given, err := decided.To("my-cluster-0", plane)
		if err != nil || len(given.Anchors) != 1 || !given.Anchors[0].Equal(ca) || !given.Signer.Certificate().Equal(ca) || len(given.Signer.Presents()) > 0 {
			t.Errorf("the member is given %v in the %s plane: %v", given.Anchors, plane, err)
		}
		if problems := decided[plane].Problems; len(problems) > 0 {
			t.Errorf("the problems are %v", problems)
		}
	}
}

func TestAReplacementDemandsTheOperatorsCA(t *testing.T) {
	t.Parallel()
	s := seen(t, operator(t))
	secrets := s.Secrets[contract.PeerPlane]
	secrets.Key.Annotations = map[string]string{domains.ForceReplaceAnnotation: "true"}
	s.Secrets[contract.PeerPlane] = secrets
	if demand := decide(t, s, contract.PeerPlane).Demand; demand == nil || !demand.Parent {
		t.Errorf("the demand is %+v", demand)
	}
	standing, err := s.Decide(contract.PeerPlane, nil)
	if err != nil || standing.Demand != nil || standing.Pending != nil {
		t.Errorf("without anything to make a CA with, the decision is %+v: %v", standing, err)
	}
}

// A pod was created to accept a CA that two others have replaced since.
func TestAPodIsShownTheWayFromTheCAThatItWasCreatedToAccept(t *testing.T) {
	t.Parallel()
	s := seen(t, operator(t))
	decided := domains.Decided{contract.PeerPlane: decide(t, s, contract.PeerPlane)}
	first, second, stranger := pkitest.CA(t, "first", noon()), pkitest.CA(t, "second", noon()), pkitest.CA(t, "stranger", noon())
	present := authority.PublishedCAs(s.Secrets[contract.PeerPlane].Cert.Data)[0]
	var stored []*x509.Certificate
	for _, signed := range []struct {
		by pki.Authority
		ca *x509.Certificate
	}{{first, second.Certificate()}, {second, present}, {stranger, present}} {
		cross, err := pki.CrossSign(signed.by, signed.ca, s.Now)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, cross)
	}
	stored = append(stored, first.Certificate(), stranger.Certificate())
	proofs := decided.Proofs(contract.PeerPlane, []string{pki.FingerprintOf(first.Certificate()).String()}, stored)
	names := make([]string, 0, len(proofs))
	for _, proof := range proofs {
		names = append(names, proof.Subject.CommonName+" by "+proof.Issuer.CommonName)
	}
	if got := strings.Join(names, ", "); got != "first by first, second by first, my-cluster peer-ca v0 by second" {
		t.Errorf("the way is %s", got)
	}
}

// A tenant may change or delete the Secret of a member, and not what is noted on its pod.
func TestASecretThatNamesOtherCAsThanItsPodWasGivenSaysNothing(t *testing.T) {
	t.Parallel()
	naming := func(revision int64, names ...string) publication.Publication {
		told := publication.Publication{Revision: revision, Trust: map[publication.Role][]string{}}
		for _, plane := range contract.Planes() {
			told.Trust[plane.Role()] = names
		}
		return told
	}
	notes := domains.Notes{Told: 7, Given: publication.Given{}}
	known := domains.Named{}
	for _, plane := range contract.Planes() {
		notes.Given[domains.Of(plane)], known[plane] = []string{"old", "gone", "new"}, []string{"new", "old", "next"}
	}
	noted := naming(7, "new", "old")
	for name, test := range map[string]struct {
		stored, want publication.Publication
		notes        domains.Notes
	}{
		"it is as the operator wrote it":       {naming(5, "new"), naming(5, "new"), notes},
		"it names what is not yet noted":       {naming(5, "next"), naming(5, "next"), notes},
		"it names what only the pod remembers": {naming(5, "gone"), naming(5, "gone"), notes},
		"it names another CA":                  {naming(5, "new", "stranger"), noted, notes},
		"it names none":                        {naming(5), noted, notes},
		"it is lost":                           {publication.Publication{}, noted, notes},
		"it is lost, and there is no pod":      {publication.Publication{}, publication.Publication{Trust: map[publication.Role][]string{}}, domains.Notes{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.notes.Published(test.stored, known)); diff != "" {
				t.Errorf("the member counts as told (-want +got):\n%s", diff)
			}
		})
	}
}
