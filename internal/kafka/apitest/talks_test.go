package apitest

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Who talks to whom in the world, and what they hold: from the Secrets as they are
// written, and from what kubelets and servers have made of them.

// The moments of a holding.
const (
	atPresent = "now"
	ifStarted = "if it started on what is mounted"
	ifMadeNew = "if its pod were made again"
)

// node is a node of the cluster with what each of its roles may hold.
type node struct {
	name   string
	config contract.Config
	roles  map[publication.Role][]holding
}

func (n node) talker(role publication.Role) talker {
	return talker{name: n.name + " " + string(role), process: n.name, holdings: n.roles[role]}
}

// listens reports whether the node has the listener.
func (n node) listens(listener publication.Role) bool {
	return len(n.roles[listener]) > 0 && listens(n.config, listener)
}

// nodes are the nodes whose servers have run.
func (w *world) nodes() []node {
	var nodes []node
	for _, pod := range slices.Sorted(maps.Keys(w.ran)) {
		n := node{name: pod, roles: map[publication.Role][]holding{}}
		starts := map[string]volumes{ifMadeNew: w.stored.volumes(pod, w.certs)}
		if s, running := w.serverOf(pod); running {
			n.config = s.started.config
			n.hold(atPresent, s.loaded, s.raft, w.mounted[pod].agent())
			starts[ifStarted] = w.mounted[pod]
		}
		for moment, v := range starts {
			if c, err := v.content(w.pinnedRevision(pod)); err == nil {
				n.config = c.config
				n.hold(moment, c.starts(w.persisted[pod]), c.raft, v.agent())
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// pinnedRevision is the oldest publication that the server of a pod may start on.
func (w *world) pinnedRevision(pod string) int64 {
	if s, running := w.serverOf(pod); running {
		return s.pin
	}
	return 0
}

func (n node) hold(moment string, listeners map[publication.Role]stores, raft stores, agent holding) {
	for listener, s := range listeners {
		n.roles[listener] = append(n.roles[listener], holding{moment: moment, chain: s.chain, trust: s.trust})
	}
	n.roles[contract.RaftRole] = append(n.roles[contract.RaftRole], holding{moment: moment, chain: raft.chain, trust: raft.trust})
	agent.moment = moment
	n.roles[publication.AgentRole] = append(n.roles[publication.AgentRole], agent)
}

// talks are all conversations of the world, in both directions.
func (w *world) talks() []talk {
	var talks []talk
	nodes := w.nodes()
	both := func(client, server talker) {
		talks = append(talks,
			talk{presenter: client, verifier: server, usage: pki.ClientAuth},
			talk{presenter: server, verifier: client, usage: pki.ServerAuth})
	}
	for _, a := range nodes {
		for _, b := range nodes {
			if a.listens(contract.ReplicationListener) && b.listens(contract.ReplicationListener) {
				both(a.talker(contract.ReplicationListener), b.talker(contract.ReplicationListener))
			}
			if b.listens(contract.ControlPlaneListener) {
				both(a.talker(contract.RaftRole), b.talker(contract.ControlPlaneListener))
			}
		}
		for _, role := range []publication.Role{contract.ReplicationListener, contract.ControlPlaneListener, publication.AgentRole} {
			if a.listens(role) {
				both(w.operator(a.name), a.talker(role))
			}
		}
		talks = append(talks, w.outside(a)...)
	}
	w.partnerTalks(nodes, both)
	return talks
}

// operator presents what its Secret holds, and accepts a node as it did last.
func (w *world) operator(node string) talker { return w.operatorAt(w.hostOf(node)) }

func (w *world) operatorAt(host string) talker {
	h := holding{moment: atPresent, chain: w.certs.in(w.stored.secrets[clusterName+"-cluster-operator-certs"]["cluster-operator.crt"])}
	if w.access == nil || w.lockedOut {
		return talker{name: "the operator"} // it has talked to nobody yet, or cannot
	}
	h.trust = w.access.Credentials.Anchors
	h.known = w.access.Leaves(host)
	return talker{name: "the operator", process: "operator", holdings: []holding{h}}
}

func (w *world) hostOf(pod string) string {
	return model.Names{Cluster: clusterName, Namespace: w.namespace}.PodHost(pod)
}

// outside are the talks of a node with applications: at listeners that present the
// node's own leaf they verify it, and every listener verifies users.
func (w *world) outside(n node) []talk {
	var talks []talk
	for _, store := range n.config.Stores {
		if store.Trust != contract.ClientsDomain {
			continue
		}
		listener := n.talker(store.Role)
		if store.Identity == publication.NodeIdentity {
			for _, reader := range w.readers() {
				talks = append(talks, talk{presenter: listener, verifier: reader, usage: pki.ServerAuth})
			}
		}
		for _, user := range w.users {
			talks = append(talks, talk{presenter: user, verifier: listener, usage: pki.ClientAuth})
		}
	}
	return talks
}

// readingTime is how long applications take at most to notice another bundle.
const readingTime = 120 * time.Second

// reader is a way of taking trust from the Secret with the CA's certificate.
type reader string

// The ways there are.
const (
	readsBundle   reader = "an application that reads ca.crt"
	readsFirst    reader = "an application that reads the first entry of ca.crt"
	readsAllFiles reader = "an application that reads all *.crt"
	readsNothing  reader = "an application that has pinned the first CA"
)

// nobodyReads leaves out all applications that read, because somebody else than the
// operator tells them what to trust.
func (w *world) nobodyReads() {
	w.without[readsBundle], w.without[readsFirst], w.without[readsAllFiles] = true, true, true
}

// offered is what applications could read, from a time on.
type offered struct {
	since time.Time
	files files
}

// readers are the applications with everything they may have read: what is offered
// now, and what was until a short time ago.
func (w *world) readers() []talker {
	var readers []talker
	for _, kind := range []reader{readsBundle, readsFirst, readsAllFiles} {
		if w.without[kind] {
			continue
		}
		t := talker{name: string(kind)}
		for i, o := range w.offers {
			if i+1 < len(w.offers) && w.clock.Now().Sub(w.offers[i+1].since) > w.reading {
				continue
			}
			if trust := w.certs.readBy(kind, o.files); len(trust) > 0 {
				t.holdings = append(t.holdings, holding{moment: "as of " + o.since.Format(time.TimeOnly), trust: trust})
			}
		}
		readers = append(readers, t)
	}
	if w.pinned != nil && !w.clock.Now().After(w.pinned.NotAfter) {
		readers = append(readers, talker{name: string(readsNothing), holdings: []holding{{trust: bundle(w.pinned)}}})
	}
	return readers
}

func (c certificates) readBy(kind reader, from files) []*x509.Certificate {
	all := c.in(from[authority.CertKey])
	switch kind {
	case readsFirst:
		return all[:min(1, len(all))]
	case readsAllFiles:
		var every []*x509.Certificate
		for _, key := range slices.Sorted(maps.Keys(from)) {
			if strings.HasSuffix(key, ".crt") {
				every = append(every, c.in(from[key])...)
			}
		}
		return every
	default:
		return all
	}
}

// noteOffers sees what applications and users are given now.
func (w *world) noteOffers() {
	cert := w.stored.secrets[authorities.Cluster.CertSecret(clusterName)]
	if len(w.ran) == 0 {
		w.offers = nil // there is nobody to talk to yet
	}
	if len(w.certs.in(cert[authority.CertKey])) > 0 && (len(w.offers) == 0 || !w.offers[len(w.offers)-1].files.equal(cert)) {
		w.offers = append(w.offers, offered{since: w.clock.Now(), files: cert})
	}
	w.noteUsers()
}

// noteUsers issues a user's certificate with each new key of the clients CA, as
// whoever looks after users does from its Secrets.
func (w *world) noteUsers() {
	text := w.stored.secrets[authorities.Clients.KeySecret(clusterName)][authority.KeyKey]
	if w.issued[string(text)] {
		return
	}
	key, err := pki.ParsePrivateKey(text)
	if err != nil {
		return
	}
	for _, cert := range w.certs.in(w.stored.secrets[authorities.Clients.CertSecret(clusterName)][authority.CertKey]) {
		ca, err := pki.NewAuthority(cert, key)
		if err != nil {
			continue // of another key
		}
		w.issued[string(text)] = true
		w.users = append(w.users, talker{
			name:     fmt.Sprintf("user %d of %s", len(w.users), cert.Subject.CommonName),
			holdings: []holding{{moment: atPresent, chain: bundle(leafBy(w.t, ca, "user", w.clock.Now()))}},
		})
	}
}

// watch fails the test at the first moment in which somebody is refused, and tells
// what led there.
func (w *world) watch() {
	w.t.Helper()
	if w.unsafe {
		return
	}
	refusals := w.safety.breaches(w.talks(), w.clock.Now())
	if len(refusals) == 0 {
		return
	}
	w.unsafe = true
	w.t.Errorf("%s\n%d refusals in all, after\n%s", strings.Join(refusals[:min(6, len(refusals))], "\n"), len(refusals), w.told())
}

// trace notes what happened, for whoever has to find out why.
func (w *world) trace(format string, args ...any) {
	w.happened = append(w.happened, w.clock.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// told is the end of the trace.
func (w *world) told() string {
	return strings.Join(w.happened[max(0, len(w.happened)-40):], "\n")
}
