package domain_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

const (
	peers    publication.Domain = "peer"
	peerRole publication.Role   = "peer"

	certGeneration = "example.com/ca-cert-generation"
	keyGeneration  = "example.com/ca-key-generation"
	forceRenew     = "example.com/force-renew"
	forceReplace   = "example.com/force-replace"

	life    = 1000 * time.Hour
	renewal = 300 * time.Hour
	// leaves of members last as long, and are renewed so long before their end.
	leafRenewal = 100 * time.Hour
	// patience is how many steps a world is given.
	patience = 200
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// world is a CA below a parent with members that load what they present when it is mounted, and what they trust at their start.
type world struct {
	t       *testing.T
	parent  pki.Authority
	now     time.Time
	secrets map[string]authority.Stored
	members map[string]*member
	holders []evidence.Holder
	// happened are the transitions of the CA.
	happened []authority.TransitionKind
}

type member struct {
	key       pki.PrivateKey
	published publication.Publication
	// leaf and crosses are what it was given to present, the leaf first; it presents them at once.
	chain []*x509.Certificate
	// trusted are the anchors that it was started with, and revision the publication that has them.
	trusted  []*x509.Certificate
	revision int64
	restarts int
}

func names() *authority.Names {
	return &authority.Names{
		Authority: "my-cluster peer-ca", Cluster: "my-cluster", Holders: authority.Members, Leaf: pki.Subject{CommonName: "member"},
		KeySecret: "ca", CertSecret: "ca-cert", TrustedCertsSecret: "ca-trusted", Field: "spec.ca", Resource: "the cluster",
		KeyReplaced: "PeerCaKeyReplaced", CertGeneration: certGeneration, KeyGeneration: keyGeneration, ForceRenew: forceRenew, ForceReplace: forceReplace,
	}
}

func kind() domain.Kind { return domain.Kind{Name: peers, Retirement: trust.RetireUnused} }

func newKey(t *testing.T) pki.PrivateKey {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newWorld is a cluster whose members trust and present what was made before there was a domain.
func newWorld(t *testing.T, size int) *world {
	t.Helper()
	parent, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: "operator"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 10 * life, Now: noon()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, parent: parent, now: noon().Add(time.Hour), members: map[string]*member{}}
	key := newKey(t)
	ca, err := pki.SignCA(parent, key, pki.CASpec{Subject: pki.Subject{CommonName: "my-cluster peer-ca v0"}, Validity: life, Now: noon()})
	if err != nil {
		t.Fatal(err)
	}
	w.secrets = map[string]authority.Stored{
		"ca":      {Exists: true, Data: map[string][]byte{authority.KeyKey: key.PEM()}},
		"ca-cert": {Exists: true, Data: map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}},
	}
	for i := range size {
		m := &member{key: newKey(t), trusted: []*x509.Certificate{ca.Certificate()}, revision: 1}
		m.published = publication.Publication{Revision: 1, Trust: map[publication.Role][]string{peerRole: fingerprints(m.trusted)}}
		w.members[fmt.Sprintf("my-cluster-%d", i)] = m
		m.chain = w.issue(m, domain.Given{Signer: ca})
	}
	return w
}

func fingerprints(certificates []*x509.Certificate) []string {
	names := make([]string, 0, len(certificates))
	for _, certificate := range certificates {
		names = append(names, pki.FingerprintOf(certificate).String())
	}
	slices.Sort(names)
	return names
}

func (w *world) issue(m *member, given domain.Given) []*x509.Certificate {
	w.t.Helper()
	leaf, err := given.Signer.Issue(m.key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "member"}, Usages: pki.BothUsages(), Validity: life, Now: w.now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return append([]*x509.Certificate{leaf}, given.Crosses...)
}

// seen is what the operator knows. All that agents know is reported.
func (w *world) seen(making *authority.Making) *domain.Seen {
	seen := &domain.Seen{CA: authority.Input{
		Names: names(), Spec: authority.Spec{ValidFor: life, RenewBefore: renewal, KeyAlgorithm: pki.ECDSA},
		KeySecret: w.secrets["ca"], CertSecret: w.secrets["ca-cert"], TrustedCerts: w.secrets["ca-trusted"],
		Making: making, Stores: authority.WithoutStores, Window: authority.Window{Open: true}, Now: w.now,
	}, Holders: w.holders}
	seen.Members.Policy.RestartMargin = renewal / 2
	for _, name := range slices.Sorted(maps.Keys(w.members)) {
		m := w.members[name]
		seen.CA.Evidence.Dependants = append(seen.CA.Evidence.Dependants, name)
		seen.CA.Evidence.Issued = append(seen.CA.Evidence.Issued, m.chain[0])
		seen.CA.Evidence.Leaves = append(seen.CA.Evidence.Leaves, m.chain[0])
		seen.Members.Nodes = append(seen.Members.Nodes, m.node(name))
	}
	return seen
}

func (m *member) node(name string) evidence.Node {
	node := evidence.Node{
		Name: name, Published: m.published, Presents: m.chain, Witness: evidence.Reported, Since: noon(),
		Roles: []evidence.Role{{
			Store: publication.Store{Role: peerRole, Identity: publication.NodeIdentity, Trust: peers}, Always: true,
			Plane: trust.Plane{Name: "peer", Trust: trust.AtStart, Prompt: true, Keeper: "the server"},
		}},
		Report: publication.Report{
			Revision: m.revision, Mounted: &m.published, Certificates: map[string][]byte{},
			Roles: map[publication.Role]publication.RoleReport{peerRole: publication.RoleReportOf(m.chain, m.trusted)},
		},
	}
	for _, certificate := range slices.Concat(m.chain, m.trusted) {
		node.Report.Certificates[pki.FingerprintOf(certificate).String()] = certificate.Raw
	}
	return node
}

// decide decides as often as something is demanded.
func (w *world) decide() *domain.Decided {
	w.t.Helper()
	making := &authority.Making{Signing: authority.BelowParent}
	for range 3 {
		d, err := kind().Decide(w.seen(making))
		if err != nil {
			w.t.Fatal(err)
		}
		if d.Demand == nil {
			return d
		}
		if d.Demand.Parent {
			making.Parent = w.parent
		}
		if d.Demand.Key != nil {
			making.Key = newKey(w.t)
		}
	}
	w.t.Fatal("something is demanded again and again")
	return nil
}

// step does the first thing that is to be written, and no more: the operator may crash after it. It reports whether there was
// anything.
func (w *world) step() bool {
	w.t.Helper()
	d := w.decide()
	if w.writeSecret(d) {
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(w.members)) {
		given, isKnown := d.Given(trust.MemberID(name))
		if !isKnown {
			w.t.Fatalf("nothing is planned for %s", name)
		}
		if w.publish(w.members[name], given) || w.sign(w.members[name], given) {
			return true
		}
	}
	for _, load := range d.Plan.Loads {
		if !load.Remainder {
			w.start(w.members[string(load.Member)])
			return true
		}
	}
	return false
}

func (w *world) writeSecret(d *domain.Decided) bool {
	w.t.Helper()
	secrets, transitions, err := d.Secrets()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, secret := range secrets {
		stored := w.secrets[secret.Name]
		next := authority.Stored{Exists: true, Data: secret.Data, Annotations: maps.Clone(stored.Annotations)}
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		maps.Copy(next.Annotations, secret.Annotations)
		for _, name := range secret.RemoveAnnotations {
			delete(next.Annotations, name)
		}
		if stored.Exists && maps.EqualFunc(stored.Data, next.Data, bytes.Equal) && maps.Equal(stored.Annotations, next.Annotations) {
			continue
		}
		w.secrets[secret.Name] = next
		for _, transition := range transitions {
			w.happened = append(w.happened, transition.Kind)
		}
		return true
	}
	return false
}

func (w *world) publish(m *member, given domain.Given) bool {
	named := fingerprints(given.Main)
	if slices.Equal(m.published.Trust[peerRole], named) {
		return false
	}
	m.published = publication.Publication{Revision: m.published.Revision + 1, Trust: map[publication.Role][]string{peerRole: named}}
	return true
}

func (w *world) sign(m *member, given domain.Given) bool {
	w.t.Helper()
	if given.Signer.IsZero() {
		return false // its key is not at hand
	}
	isCurrent := pki.IssuedBy(m.chain[0], given.Signer.Certificate()) && slices.EqualFunc(m.chain[1:], given.Crosses, (*x509.Certificate).Equal) &&
		w.now.Before(m.chain[0].NotAfter.Add(-leafRenewal))
	if !isCurrent {
		m.chain = w.issue(m, given)
	}
	return !isCurrent
}

// start starts the server of a member on what is published to it.
func (w *world) start(m *member) {
	w.t.Helper()
	m.trusted, m.revision = nil, m.published.Revision
	for _, anchor := range w.anchors() {
		if slices.Contains(m.published.Trust[peerRole], pki.FingerprintOf(anchor).String()) {
			m.trusted = append(m.trusted, anchor)
		}
	}
	m.restarts++
}

// anchors are all CA certificates that there are.
func (w *world) anchors() []*x509.Certificate {
	var anchors []*x509.Certificate
	for _, anchor := range authority.StoredAnchors(w.secrets["ca-trusted"]) {
		anchors = append(anchors, anchor.Certificate)
	}
	return anchors
}

// isSafe fails the test unless each member accepts each other one.
func (w *world) isSafe() {
	w.t.Helper()
	for client, from := range w.members {
		for server, to := range w.members {
			if err := pki.Verify(from.chain, to.trusted, w.now, pki.BothUsages()...); err != nil {
				w.t.Fatalf("%s does not accept %s: %v", server, client, err)
			}
		}
	}
}

// settle goes on until nothing is left to be done.
func (w *world) settle() *domain.Decided {
	w.t.Helper()
	for range patience {
		w.isSafe()
		if !w.step() {
			return w.decide()
		}
	}
	d := w.decide()
	w.t.Fatalf("it does not come to an end: %+v", d.Plan.Blockers)
	return d
}

func (w *world) ask(secret, annotation string) {
	w.t.Helper()
	stored := w.secrets[secret]
	stored.Annotations = maps.Clone(stored.Annotations)
	stored.Annotations[annotation] = "true"
	w.secrets[secret] = stored
}

func (w *world) ca() *x509.Certificate {
	w.t.Helper()
	certificate, err := pki.FirstCertificate(w.secrets["ca-cert"].Data[authority.CertKey])
	if err != nil {
		w.t.Fatal(err)
	}
	return certificate
}

// trustsAlone fails the test unless a CA is the only one that anything knows.
func (w *world) trustsAlone(ca *x509.Certificate) {
	w.t.Helper()
	for name, m := range w.members {
		if len(m.trusted) != 1 || !m.trusted[0].Equal(ca) || !pki.IssuedBy(m.chain[0], ca) {
			w.t.Errorf("%s trusts %v, and presents what %s has signed", name, fingerprints(m.trusted), m.chain[0].Issuer)
		}
	}
	if anchors := w.anchors(); len(anchors) != 1 || !anchors[0].Equal(ca) {
		w.t.Errorf("the trusted CAs are %v", fingerprints(anchors))
	}
}

func TestWhatWasMadeBeforeIsAdoptedAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	key, cert := w.secrets["ca"].Data[authority.KeyKey], w.secrets["ca-cert"].Data[authority.CertKey]
	d := w.settle()
	if !d.Plan.Done || len(w.happened) > 0 || !bytes.Equal(w.secrets["ca"].Data[authority.KeyKey], key) || !bytes.Equal(w.secrets["ca-cert"].Data[authority.CertKey], cert) {
		t.Errorf("it is done: %t, with %v", d.Plan.Done, w.happened)
	}
	for name, m := range w.members {
		if m.restarts > 0 || m.published.Revision > 1 {
			t.Errorf("%s was restarted %d times, and told %d times", name, m.restarts, m.published.Revision-1)
		}
	}
}

// The operator crashes after each write, and goes on from what is stored.
func TestANewKeyTakesOneRestartOfEachMember(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		w := newWorld(t, size)
		w.settle()
		former := w.ca()
		w.ask("ca", forceReplace)
		d := w.settle()
		if !d.Plan.Done || w.ca().Equal(former) || !pki.IssuedBy(w.ca(), w.parent.Certificate()) {
			t.Fatalf("it is done: %t, and the CA is %s by %s", d.Plan.Done, w.ca().Subject, w.ca().Issuer)
		}
		w.trustsAlone(w.ca())
		for name, m := range w.members {
			if m.restarts != 1 {
				t.Errorf("%s of %d was restarted %d times, want once", name, size, m.restarts)
			}
		}
		if !slices.Contains(w.happened, "PeerCaKeyReplaced") {
			t.Errorf("what has happened is %v", w.happened)
		}
		for entry := range w.secrets["ca"].Data {
			if strings.Contains(entry, "pending") {
				t.Errorf("%s is left in the Secret of the key", entry)
			}
		}
	}
}

// Each member goes on accepting the others over the end of the certificate that it was started with.
func TestARenewedCertificateIsLoadedBeforeTheOldOneEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settle()
	former := w.ca()
	w.now = noon().Add(life - renewal + time.Hour)
	w.settle()
	if w.ca().Equal(former) || pki.KeyIDOf(w.ca()) != pki.KeyIDOf(former) {
		t.Fatalf("the CA is not renewed: it ends at %s", w.ca().NotAfter)
	}
	for w.now.Before(former.NotAfter.Add(time.Hour)) {
		w.now = w.now.Add(5 * time.Hour)
		w.settle()
	}
	for name, m := range w.members {
		if m.restarts != 1 {
			t.Errorf("%s was restarted %d times, want once", name, m.restarts)
		}
	}
	w.trustsAlone(w.ca())
}

func TestANewKeyWaitsForWhatApplicationsHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settle()
	former := w.ca()
	w.holders = []evidence.Holder{{Name: "an application", CA: pki.FingerprintOf(former).String(), NotAfter: w.now.Add(24 * time.Hour)}}
	w.ask("ca", forceReplace)
	if d := w.settle(); d.Plan.Done || !slices.ContainsFunc(w.anchors(), former.Equal) {
		t.Fatalf("it is done while an application has a certificate of the old CA: the trusted CAs are %v", fingerprints(w.anchors()))
	}
	w.now = w.now.Add(25 * time.Hour)
	w.settle()
	w.trustsAlone(w.ca())
}

func TestACAThatCannotBeUsedStandsAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settle()
	stored := w.secrets["ca"]
	stored.Data = map[string][]byte{authority.KeyKey: newKey(t).PEM()}
	w.secrets["ca"] = stored
	d := w.decide()
	if len(d.Problems) == 0 || w.step() {
		t.Errorf("the problems are %v, and something is written", d.Problems)
	}
	w.isSafe()
}
