package domain_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

const (
	peer    publication.Domain = "peer"
	clients publication.Domain = "client"

	certGeneration = "example.com/ca-cert-generation"
	keyGeneration  = "example.com/ca-key-generation"
	forceRenew     = "example.com/force-renew"
	forceReplace   = "example.com/force-replace"
	keyReplaced    = "KeyReplaced"

	life    = 1000 * time.Hour
	renewal = 300 * time.Hour
	// leaves of members last as long, and are renewed so long before their end.
	leafRenewal = 100 * time.Hour
	// patience is how many steps a world is given.
	patience = 200
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// world has CAs below a parent, with members that load what they present when it is mounted, and what they trust at their start.
type world struct {
	t       *testing.T
	domains []publication.Domain
	parent  pki.Authority
	now     time.Time
	secrets map[string]authority.Stored
	members map[string]*member
	// spec is what is asked of each CA.
	spec    authority.Spec
	holders map[publication.Domain][]evidence.Holder
	// isChecked is true while nothing has changed since members were last seen to accept each other, and checkedAt when that was.
	isChecked bool
	checkedAt time.Time
	// happened are the transitions of the CA.
	happened []authority.TransitionKind
}

type certificate = x509.Certificate

type member struct {
	key pki.PrivateKey
	// published is what its Secret says, and mounted what it would be started with.
	published, mounted publication.Publication
	// given are the anchors that the pod was given at any time, as notes on it say.
	given map[publication.Domain][]string
	// chains are what it was given to present, each leaf first; it presents them at once.
	chains map[publication.Domain][]*certificate
	// trusted are the anchors that it was started with, and revision the publication that has them.
	trusted  map[publication.Domain][]*certificate
	revision int64
	restarts int
	// isComing is true before its process starts first, and isSilent while its agent does not answer.
	isComing, isSilent bool
	// changed is when it came to be as it is.
	changed time.Time
}

func names(of publication.Domain) *authority.Names {
	return &authority.Names{
		Authority: "my-cluster " + string(of) + "-ca", Cluster: "my-cluster", Holders: authority.Members, Leaf: pki.Subject{CommonName: "member"},
		KeySecret: string(of), CertSecret: string(of) + "-cert", TrustedCertsSecret: string(of) + "-trusted", Field: "spec.ca", Resource: "the cluster",
		KeyReplaced: keyReplaced, CertGeneration: certGeneration, KeyGeneration: keyGeneration, ForceRenew: forceRenew, ForceReplace: forceReplace,
	}
}

func newKey(t *testing.T) pki.PrivateKey {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newWorld is a cluster whose members trust and present what was made before there were domains.
func newWorld(t *testing.T, size int, domains ...publication.Domain) *world {
	t.Helper()
	parent, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: "operator"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 10 * life, Now: noon()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, spec: authority.Spec{ValidFor: life, RenewBefore: renewal, KeyAlgorithm: pki.ECDSA}, domains: domains, parent: parent, now: noon().Add(time.Hour), secrets: map[string]authority.Stored{}, members: map[string]*member{}}
	for i := range size {
		w.members[fmt.Sprintf("my-cluster-%d", i)] = &member{
			key: newKey(t), revision: 1, changed: noon(),
			published: publication.Publication{Revision: 1, Trust: map[publication.Role][]string{}},
			given:     map[publication.Domain][]string{}, chains: map[publication.Domain][]*certificate{}, trusted: map[publication.Domain][]*certificate{},
		}
	}
	for _, of := range domains {
		w.begin(of)
	}
	return w
}

// begin makes the CA of a domain, and what members have of it.
func (w *world) begin(of publication.Domain) {
	w.t.Helper()
	key := newKey(w.t)
	ca, err := pki.SignCA(w.parent, key, pki.CASpec{Subject: pki.Subject{CommonName: "my-cluster " + string(of) + "-ca v0"}, Validity: life, Now: noon()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.secrets[names(of).KeySecret] = authority.Stored{Exists: true, Data: map[string][]byte{authority.KeyKey: key.PEM()}}
	w.secrets[names(of).CertSecret] = authority.Stored{Exists: true, Data: map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}}
	for _, m := range w.members {
		m.trusted[of] = []*certificate{ca.Certificate()}
		m.published.Trust[publication.Role(of)] = fingerprints(m.trusted[of])
		m.mounted, m.given[of] = m.published, fingerprints(m.trusted[of])
		m.chains[of] = w.issue(m, domain.Given{Signer: ca})
	}
}

func fingerprints(certificates []*certificate) []string {
	names := make([]string, 0, len(certificates))
	for _, certificate := range certificates {
		names = append(names, pki.FingerprintOf(certificate).String())
	}
	slices.Sort(names)
	return names
}

func (w *world) issue(m *member, given domain.Given) []*certificate {
	w.t.Helper()
	leaf, err := given.Signer.Issue(m.key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "member"}, Usages: pki.BothUsages(), Validity: life, Now: w.now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return append([]*certificate{leaf}, given.Crosses...)
}

// seen is what the operator knows of a domain. All that agents know is reported.
func (w *world) seen(of publication.Domain, making *authority.Making) *domain.Seen {
	seen := &domain.Seen{CA: authority.Input{
		Names: names(of), Spec: w.spec,
		KeySecret: w.secrets[names(of).KeySecret], CertSecret: w.secrets[names(of).CertSecret], TrustedCerts: w.secrets[names(of).TrustedCertsSecret],
		Making: making, Stores: authority.WithoutStores, Window: authority.Window{Open: true}, Now: w.now,
	}, Holders: w.holders[of]}
	seen.Members.Policy.RestartMargin = renewal / 2
	for _, name := range w.names() {
		m := w.members[name]
		seen.CA.Evidence.Dependants = append(seen.CA.Evidence.Dependants, name)
		if chain := m.chains[of]; len(chain) > 0 {
			seen.CA.Evidence.Issued = append(seen.CA.Evidence.Issued, chain[0])
			seen.CA.Evidence.Leaves = append(seen.CA.Evidence.Leaves, chain[0])
		}
		seen.Members.Nodes = append(seen.Members.Nodes, m.node(name, of))
	}
	return seen
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.members)) }

// node is the member as a domain sees it. It trusts and presents in its other domains, too.
func (m *member) node(name string, own publication.Domain) evidence.Node {
	node := evidence.Node{
		Name: name, Published: m.published, Presents: m.chains[own], Given: m.given, State: evidence.Running, Since: m.changed,
		Report: publication.Report{
			Revision: m.revision, Mounted: &m.mounted, Roles: map[publication.Role]publication.RoleReport{}, Certificates: map[string][]byte{},
		},
	}
	switch {
	case m.isComing:
		node.State = evidence.Absent
	case m.isSilent:
		node.State = evidence.Unknown
	}
	for _, of := range slices.Sorted(maps.Keys(m.trusted)) {
		store := publication.Store{Role: publication.Role(of), Identity: string(of), Trust: of}
		if of == own {
			store.Identity = publication.NodeIdentity
		}
		node.Roles = append(node.Roles, evidence.Role{
			Store: store, Always: true, Plane: trust.Plane{Name: string(of), Trust: trust.AtStart, Prompt: true, Keeper: "the server"},
		})
		if m.isComing {
			continue
		}
		node.Report.Roles[publication.Role(of)] = publication.RoleReportOf(m.chains[of], m.trusted[of])
		for _, certificate := range slices.Concat(m.chains[of], m.trusted[of]) {
			node.Report.Certificates[pki.FingerprintOf(certificate).String()] = certificate.Raw
		}
	}
	return node
}

// decide decides about a domain as often as something is demanded.
func (w *world) decide(of publication.Domain) *domain.Decided {
	w.t.Helper()
	making := &authority.Making{Signing: authority.BelowParent}
	for range 3 {
		d, err := (domain.Kind{Name: of, Own: of, Retirement: trust.RetireUnused}).Decide(w.seen(of, making))
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

func (w *world) decideAll() map[publication.Domain]*domain.Decided {
	w.t.Helper()
	decided := map[publication.Domain]*domain.Decided{}
	for _, of := range w.domains {
		decided[of] = w.decide(of)
	}
	return decided
}

// restarts are the members to be started now.
func (w *world) restarts(decided map[publication.Domain]*domain.Decided) []trust.Load {
	var all []*domain.Decided
	for _, of := range w.domains {
		all = append(all, decided[of])
	}
	return domain.Restarts(all...)
}

// step does the first thing that is to be done, and no more: the operator may crash after it. It reports whether there was
// anything.
func (w *world) step() bool {
	w.t.Helper()
	decided := w.decideAll()
	for _, of := range w.domains {
		if w.writeSecret(decided[of]) {
			return true
		}
	}
	for _, name := range w.names() {
		if w.give(name, decided) || w.mount(name) {
			return true
		}
	}
	for _, load := range w.restarts(decided) {
		w.start(string(load.Member))
		return true
	}
	return false
}

// give writes the Secret of a member, or else its certificates, and reports whether that was anything new.
func (w *world) give(name string, decided map[publication.Domain]*domain.Decided) bool {
	w.t.Helper()
	all := map[publication.Domain]domain.Given{}
	for _, of := range w.domains {
		given, isPlanned := decided[of].Given(trust.MemberID(name))
		if !isPlanned {
			w.t.Fatalf("nothing is planned for %s", name)
		}
		all[of] = given
	}
	return w.publish(w.members[name], all) || w.sign(w.members[name], all)
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

func (w *world) publish(m *member, given map[publication.Domain]domain.Given) bool {
	next := publication.Publication{Revision: m.published.Revision + 1, Trust: map[publication.Role][]string{}}
	for of := range given {
		next.Trust[publication.Role(of)] = fingerprints(given[of].Main)
		m.given[of] = append(m.given[of], fingerprints(given[of].Main)...) // before it is published
	}
	if maps.EqualFunc(next.Trust, m.published.Trust, slices.Equal[[]string]) {
		return false
	}
	m.published, m.changed = next, w.now
	return true
}

func (w *world) sign(m *member, given map[publication.Domain]domain.Given) bool {
	w.t.Helper()
	for _, of := range w.domains {
		chain, by := m.chains[of], given[of]
		isCurrent := by.Signer.IsZero() || // its key is not at hand
			len(chain) > 0 && pki.IssuedBy(chain[0], by.Signer.Certificate()) && slices.EqualFunc(chain[1:], by.Crosses, (*certificate).Equal) &&
				w.now.Before(chain[0].NotAfter.Add(-leafRenewal))
		if !isCurrent {
			m.chains[of], m.changed, w.isChecked = w.issue(m, by), w.now, false
			return true
		}
	}
	return false
}

// mount mounts what is published to a member, and reports whether that is another publication.
func (w *world) mount(name string) bool {
	m := w.members[name]
	if m.mounted.Revision == m.published.Revision {
		return false
	}
	m.mounted, m.changed = m.published, w.now
	return true
}

// start starts the server of a member on what is mounted.
func (w *world) start(name string) {
	w.t.Helper()
	m := w.members[name]
	m.revision, m.changed = m.mounted.Revision, w.now
	m.restarts++
	w.isChecked = false
	for _, of := range w.domains {
		m.trusted[of] = nil
		for _, anchor := range w.anchors(of) {
			if slices.Contains(m.mounted.Trust[publication.Role(of)], pki.FingerprintOf(anchor).String()) {
				m.trusted[of] = append(m.trusted[of], anchor)
			}
		}
	}
}

// anchors are all CA certificates of a domain.
func (w *world) anchors(of publication.Domain) []*certificate {
	var anchors []*certificate
	for _, anchor := range authority.StoredAnchors(w.secrets[names(of).TrustedCertsSecret]) {
		anchors = append(anchors, anchor.Certificate)
	}
	return anchors
}

// isSafe fails the test unless each member accepts each other one.
func (w *world) isSafe() {
	w.t.Helper()
	if w.isChecked && w.checkedAt.Equal(w.now) {
		return
	}
	w.isChecked, w.checkedAt = true, w.now
	for client, from := range w.members {
		for server, to := range w.members {
			for _, of := range w.domains {
				if from.isComing || to.isComing {
					continue
				}
				if err := pki.Verify(from.chains[of], to.trusted[of], w.now, pki.BothUsages()...); err != nil {
					w.t.Fatalf("%s does not accept %s of domain %s: %v", server, client, of, err)
				}
			}
		}
	}
}

// settle continues until nothing is left to be done, and reports whether that is the end of all rotations.
func (w *world) settle() (isDone bool) {
	w.t.Helper()
	for range patience {
		w.isSafe()
		if !w.step() {
			return w.isDone(w.decideAll())
		}
	}
	w.t.Fatalf("it does not come to an end: %+v", w.decide(w.domains[0]).Plan.Blockers)
	return false
}

func (w *world) isDone(decided map[publication.Domain]*domain.Decided) bool {
	for _, d := range decided {
		if !d.Plan.Done {
			return false
		}
	}
	return true
}

func (w *world) ask(secret, annotation string) { w.annotate(secret, annotation, "true") }

func (w *world) annotate(secret, annotation, value string) {
	stored := w.secrets[secret]
	asked := map[string]string{}
	maps.Copy(asked, stored.Annotations)
	asked[annotation] = value
	stored.Annotations = asked
	w.secrets[secret] = stored
}

func (w *world) ca(of publication.Domain) *certificate {
	w.t.Helper()
	certificate, err := pki.FirstCertificate(w.secrets[names(of).CertSecret].Data[authority.CertKey])
	if err != nil {
		w.t.Fatal(err)
	}
	return certificate
}

// trustsAlone fails the test unless the CA of a domain is the only one that anything knows.
func (w *world) trustsAlone(of publication.Domain) {
	w.t.Helper()
	ca := w.ca(of)
	for name, m := range w.members {
		if len(m.trusted[of]) != 1 || !m.trusted[of][0].Equal(ca) || !pki.IssuedBy(m.chains[of][0], ca) {
			w.t.Errorf("%s trusts %v, and presents what %s has signed", name, fingerprints(m.trusted[of]), m.chains[of][0].Issuer)
		}
	}
	if anchors := w.anchors(of); len(anchors) != 1 || !anchors[0].Equal(ca) {
		w.t.Errorf("the trusted CAs are %v", fingerprints(anchors))
	}
}

func (w *world) mostRestarts() int {
	most := 0
	for _, m := range w.members {
		most = max(most, m.restarts)
	}
	return most
}

func TestWhatWasMadeBeforeIsAdoptedAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	key, cert := w.secrets["peer"].Data[authority.KeyKey], w.secrets["peer-cert"].Data[authority.CertKey]
	isDone := w.settle()
	if !isDone || len(w.happened) > 0 || !bytes.Equal(w.secrets["peer"].Data[authority.KeyKey], key) || !bytes.Equal(w.secrets["peer-cert"].Data[authority.CertKey], cert) {
		t.Errorf("it is done: %t, with %v", isDone, w.happened)
	}
	for name, m := range w.members {
		if m.restarts > 0 || m.published.Revision > 1 {
			t.Errorf("%s was restarted %d times, and told %d times", name, m.restarts, m.published.Revision-1)
		}
	}
}

// The operator crashes after each write, and continues from what is stored.
func TestANewKeyTakesOneRestartOfEachMember(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		w := newWorld(t, size, peer)
		w.settle()
		former := w.ca(peer)
		w.ask("peer", forceReplace)
		if isDone := w.settle(); !isDone || w.ca(peer).Equal(former) || !pki.IssuedBy(w.ca(peer), w.parent.Certificate()) {
			t.Fatalf("it is done: %t, and the CA is %s by %s", isDone, w.ca(peer).Subject, w.ca(peer).Issuer)
		}
		w.trustsAlone(peer)
		if w.mostRestarts() != 1 || !slices.Contains(w.happened, keyReplaced) {
			t.Errorf("members of %d were restarted up to %d times, want once; what has happened is %v", size, w.mostRestarts(), w.happened)
		}
		for entry := range w.secrets["peer"].Data {
			if strings.Contains(entry, "pending") {
				t.Errorf("%s is left in the Secret of the key", entry)
			}
		}
	}
}

// Each member accepts the others, also after the certificate has expired that it was started with.
func TestARenewedCertificateIsLoadedBeforeTheOldOneEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	former := w.ca(peer)
	w.now = noon().Add(life - renewal + time.Hour)
	w.settle()
	if w.ca(peer).Equal(former) || pki.KeyIDOf(w.ca(peer)) != pki.KeyIDOf(former) || w.mostRestarts() > 0 {
		t.Fatalf("the CA is not renewed: it ends at %s, after %d restarts", w.ca(peer).NotAfter, w.mostRestarts())
	}
	for w.now.Before(former.NotAfter.Add(time.Hour)) {
		w.now = w.now.Add(5 * time.Hour)
		w.settle()
	}
	if w.mostRestarts() != 1 {
		t.Errorf("members were restarted up to %d times, want once", w.mostRestarts())
	}
	w.trustsAlone(peer)
}

// The CAs of a member end at different times.
func TestEachOfTwoRenewedCertificatesIsLoadedBeforeTheOldOneEnds(t *testing.T) {
	t.Parallel()
	for first, second := range map[publication.Domain]publication.Domain{peer: clients, clients: peer} {
		t.Run(string(first), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, peer, clients)
			w.settle()
			w.now = noon().Add(life / 2)
			w.ask(string(second), forceReplace)
			w.settle()
			former := w.ca(first)
			w.now = noon().Add(life - renewal + time.Hour)
			for w.now.Before(former.NotAfter.Add(time.Hour)) {
				w.settle()
				w.now = w.now.Add(20 * time.Hour)
			}
			if w.mostRestarts() != 2 {
				t.Errorf("members were restarted up to %d times, want once for each CA", w.mostRestarts())
			}
			w.trustsAlone(first)
		})
	}
}

// What can be used of a specification is used: an expired CA serves nothing.
func TestACAIsRenewedAlthoughItsSpecificationCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	former := w.ca(peer)
	w.spec.RenewBefore = 2 * life
	w.now = former.NotAfter.Add(-time.Hour)
	if d := w.decide(peer); len(d.Problems) != 1 || d.Held {
		t.Fatalf("the problems are %v, and the CA is held: %t", d.Problems, d.Held)
	}
	w.settle()
	if w.ca(peer).Equal(former) {
		t.Error("the CA is not renewed")
	}
}

func TestANewKeyWaitsForWhatApplicationsHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, clients)
	w.settle()
	former := w.ca(clients)
	w.holders = map[publication.Domain][]evidence.Holder{clients: {{Name: "an application", CA: pki.FingerprintOf(former).String(), NotAfter: w.now.Add(24 * time.Hour)}}}
	w.ask("client", forceReplace)
	if isDone := w.settle(); isDone || !slices.ContainsFunc(w.anchors(clients), former.Equal) {
		t.Fatalf("it is done while an application has a certificate of the old CA: the trusted CAs are %v", fingerprints(w.anchors(clients)))
	}
	w.now = w.now.Add(25 * time.Hour)
	w.settle()
	w.trustsAlone(clients)
}

// A certificate that was issued before a renewal is verified by the renewed CA.
func TestARenewalWaitsForNoApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, clients)
	w.settle()
	former := w.ca(clients)
	w.holders = map[publication.Domain][]evidence.Holder{clients: {{Name: "an application", CA: pki.FingerprintOf(former).String(), NotAfter: former.NotAfter.Add(life)}}}
	for w.now.Before(former.NotAfter.Add(time.Hour)) {
		w.now = w.now.Add(50 * time.Hour)
		w.settle()
		if waits := w.decide(clients).Former(); len(waits) > 0 {
			t.Fatalf("%v is waited for at %s, of a CA that ends at %s", waits, w.now, former.NotAfter)
		}
	}
	w.trustsAlone(clients)
}

func TestACAThatCannotBeUsedStandsAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	stored := w.secrets["peer"]
	stored.Data = map[string][]byte{authority.KeyKey: newKey(t).PEM()}
	w.secrets["peer"] = stored
	if d := w.decide(peer); len(d.Problems) == 0 || w.step() {
		t.Errorf("the problems are %v, and something is written", d.Problems)
	}
	w.isSafe()
}

func TestTwoNewKeysTakeOneRestartOfEachMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer, clients)
	w.settle()
	w.ask("peer", forceReplace)
	w.ask("client", forceReplace)
	if isDone := w.settle(); !isDone || w.mostRestarts() != 1 {
		t.Errorf("it is done: %t, after up to %d restarts of a member, want 1", isDone, w.mostRestarts())
	}
	w.trustsAlone(peer)
	w.trustsAlone(clients)
}

func TestARestartWaitsForADomainThatHasJustBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer, clients)
	w.settle()
	w.ask("peer", forceReplace)
	for range patience {
		if len(w.restarts(w.decideAll())) > 0 || !w.step() {
			break
		}
	}
	if len(w.restarts(w.decideAll())) == 0 {
		t.Fatal("no member is to be restarted")
	}
	w.ask("client", forceReplace)
	if due := w.restarts(w.decideAll()); len(due) > 0 {
		t.Errorf("members would be restarted twice: %+v", due)
	}
	if isDone := w.settle(); !isDone || w.mostRestarts() != 1 {
		t.Errorf("it is done: %t, after up to %d restarts of a member, want 1", isDone, w.mostRestarts())
	}
}

// Applications that read their Secrets again soon cost no restart of their own.
func TestARestartWaitsForApplicationsThatMoveSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer, clients)
	w.settle()
	held := evidence.Holder{Name: "an application", CA: pki.FingerprintOf(w.ca(clients)).String(), NotAfter: w.now.Add(24 * time.Hour)}
	w.holders = map[publication.Domain][]evidence.Holder{clients: {held}}
	w.ask("peer", forceReplace)
	w.ask("client", forceReplace)
	w.settle()
	if w.mostRestarts() != 0 {
		t.Fatalf("a member was restarted %d times before the application has moved", w.mostRestarts())
	}
	w.holders = nil
	if isDone := w.settle(); !isDone || w.mostRestarts() != 1 {
		t.Errorf("it is done: %t, after up to %d restarts of a member, want 1", isDone, w.mostRestarts())
	}
	w.trustsAlone(peer)
	w.trustsAlone(clients)
}

// What is loaded and ends waits for no application.
func TestARestartThatIsDueWaitsForNoApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer, clients)
	w.settle()
	w.now = noon().Add(life / 2)
	w.ask("client", forceReplace) // it ends later than the other
	w.settle()
	w.now = noon().Add(life - renewal + time.Hour)
	w.settle()
	before := w.mostRestarts()
	w.now = noon().Add(life - renewal/2 - time.Minute)
	w.holders = map[publication.Domain][]evidence.Holder{clients: {{Name: "an application", CA: pki.FingerprintOf(w.ca(clients)).String(), NotAfter: w.now.Add(24 * time.Hour)}}}
	w.ask("client", forceReplace)
	w.settle()
	if w.mostRestarts() != before {
		t.Fatalf("a member was restarted %d times before that is due, want %d", w.mostRestarts(), before)
	}
	w.now = w.now.Add(2 * time.Minute)
	w.settle()
	if w.mostRestarts() != before+1 {
		t.Errorf("a member was restarted %d times when that is due, want %d", w.mostRestarts(), before+1)
	}
}

// What waits for long is not waited for: a certificate of an application may last for months.
func TestARestartWaitsForNoDomainThatIsHeldUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer, clients)
	w.settle()
	w.holders = map[publication.Domain][]evidence.Holder{clients: {{Name: "an application", CA: pki.FingerprintOf(w.ca(clients)).String(), NotAfter: w.now.Add(24 * time.Hour)}}}
	w.ask("peer", forceReplace)
	w.ask("client", forceReplace)
	w.settle()
	w.now = w.now.Add(rotation.Patience)
	w.settle()
	w.trustsAlone(peer)
	w.now = w.now.Add(25 * time.Hour)
	if isDone := w.settle(); !isDone || w.mostRestarts() != 2 {
		t.Errorf("it is done: %t, after up to %d restarts of a member, want 2", isDone, w.mostRestarts())
	}
	w.trustsAlone(clients)
}

// Kubelets lag, operators crash, and agents are slow, in any order.
func TestTwoNewKeysInAnyOrderTakeOneRestartOfEachMember(t *testing.T) {
	t.Parallel()
	const schedules = 4
	for seed := range uint64(schedules) {
		t.Run(fmt.Sprintf("schedule %d", seed), func(t *testing.T) {
			t.Parallel()
			w, chance := newWorld(t, 3, peer, clients), rand.New(rand.NewPCG(seed, 7))
			w.settle()
			w.ask("peer", forceReplace)
			w.ask("client", forceReplace)
			for range 20 * patience {
				w.isSafe()
				decided, name := w.decideAll(), w.names()[chance.IntN(3)]
				if w.isDone(decided) {
					break
				}
				w.now = w.now.Add(time.Millisecond)
				w.checkedAt = w.now // so soon nothing expires
				switch chance.IntN(4) {
				case 0:
					w.writeSecret(decided[w.domains[chance.IntN(2)]])
				case 1:
					w.give(name, decided)
				case 2:
					w.mount(name)
				case 3:
					isDue := func(l trust.Load) bool { return string(l.Member) == name }
					if slices.ContainsFunc(w.restarts(decided), isDue) {
						w.start(name)
					}
				}
			}
			if decided := w.decideAll(); !w.isDone(decided) {
				t.Fatalf("it does not come to an end: %+v %+v; %+v %+v", decided[peer].Plan.Loads, decided[peer].Plan.Blockers, decided[clients].Plan.Loads, decided[clients].Plan.Blockers)
			}
			w.trustsAlone(peer)
			w.trustsAlone(clients)
			if w.mostRestarts() != 1 {
				t.Errorf("a member was restarted %d times, want once", w.mostRestarts())
			}
		})
	}
}

func TestAnIssuerSignsUnlessItsCAIsRefusedAndAKeyIsAtHand(t *testing.T) {
	t.Parallel()
	keys := []pki.Authority{{}}
	for name, c := range map[string]struct {
		source   authority.Source
		decision authority.Decision
		want     trust.Issuance
	}{
		"the CA is generated":                       {authority.Generated, authority.Decision{Keys: keys}, trust.Held},
		"the CA is a user's":                        {authority.UserProvided, authority.Decision{Keys: keys}, trust.Held},
		"the CA is an issuer's":                     {authority.Outside, authority.Decision{}, trust.Offered},
		"former keys are at hand":                   {authority.Outside, authority.Decision{Keys: keys}, trust.Offered},
		"it is refused, and a former one has a key": {authority.Outside, authority.Decision{Held: true, Keys: keys}, trust.Held},
		"it is refused, and there is no former key": {authority.Outside, authority.Decision{Held: true}, trust.Offered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := domain.IssuanceOf(authority.Spec{Source: c.source}, c.decision); got != c.want {
				t.Errorf("issuance is %v, want %v", got, c.want)
			}
		})
	}
}
