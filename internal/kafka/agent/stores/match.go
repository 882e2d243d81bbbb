package stores

import (
	"crypto/x509"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Matched is a set of mounts that belong together: everything the publication
// names is there, and the publication is not older than the pod's pin.
type Matched struct {
	Config          contract.Config
	Publication     publication.Publication
	ClusterID       string
	MetadataVersion string
	// ServerConfig is the server's configuration without any store.
	ServerConfig []byte
	// Node is the node's own identity.
	Node Identity
	// Listeners holds one entry per TLS listener, sorted by name.
	Listeners []Listener
	// Proofs are leaves that no server presents, see publication.Publication; sorted by
	// the key that signed them. One that is named and not mounted is left out.
	Proofs []Identity
}

// Listener is what one TLS listener is to present and to trust.
type Listener struct {
	Name     publication.Role
	Identity Identity
	// Trusts is sorted by fingerprint and not empty.
	Trusts []*x509.Certificate
	// Starts is what its store holds when the server starts, sorted too. It differs
	// from Trusts only on the control plane, whose store the Raft client reads then.
	Starts []*x509.Certificate
}

// AtStart is the listener as the server loads it when it starts.
func (l Listener) AtStart() Listener {
	l.Trusts = l.Starts
	return l
}

// Match decides whether the mounts are what the pod pins. The error, if any, is
// an agent.WaitingError that names everything missing at once.
func Match(m Mounted) (Matched, error) {
	w := &waiting{}
	matched := Matched{
		ClusterID:       strings.TrimSpace(string(m.Config[contract.ClusterIDKey])),
		MetadataVersion: strings.TrimSpace(string(m.Config[contract.MetadataVersionKey])),
		ServerConfig:    m.Config[contract.ServerConfigKey],
		Config:          w.config(m),
		Publication:     w.publication(m),
	}
	if len(matched.ServerConfig) == 0 {
		w.Add("%s in the node's ConfigMap", contract.ServerConfigKey)
	}
	if matched.ClusterID == "" {
		w.Add("%s in the node's ConfigMap", contract.ClusterIDKey)
	}
	w.configuration(m, matched.Publication)
	if !w.Empty() {
		return Matched{}, w.Err()
	}
	matched.Node = w.identity(m.Node, matched.Config.PodName, publication.NodeIdentity, matched.Publication)
	anchors := map[publication.Domain]map[string]*x509.Certificate{
		contract.ClusterDomain: Anchors(m.trust(contract.ClusterDomain)),
		contract.ClientsDomain: Anchors(m.trust(contract.ClientsDomain)),
	}
	for _, store := range sortedStores(matched.Config.Stores) {
		listener := Listener{Name: store.Role, Identity: matched.Node}
		if store.Identity != publication.NodeIdentity {
			listener.Identity = w.identity(m.Node, store.Identity, store.Identity, matched.Publication)
		}
		listener.Trusts = w.trust(anchors[store.Trust], store, matched.Publication)
		listener.Starts = listener.Trusts
		if _, raft := matched.Publication.Trust[contract.RaftRole]; raft && store.Role == contract.ControlPlaneListener {
			store.Role = contract.RaftRole
			listener.Starts = w.trust(anchors[store.Trust], store, matched.Publication)
		}
		matched.Listeners = append(matched.Listeners, listener)
	}
	if !w.Empty() {
		return Matched{}, w.Err()
	}
	matched.Proofs = proofs(m.Node, matched.Publication)
	return matched, nil
}

func sortedStores(list []publication.Store) []publication.Store {
	return slices.SortedFunc(slices.Values(list), func(a, b publication.Store) int {
		return strings.Compare(string(a.Role), string(b.Role))
	})
}

// waiting collects what is missing.
type waiting struct {
	agent.Missing
}

func (w *waiting) config(m Mounted) contract.Config {
	data, found := m.Config[contract.AgentConfigKey]
	if !found {
		w.Add("%s in the node's ConfigMap", contract.AgentConfigKey)
		return contract.Config{}
	}
	config, err := contract.ParseConfig(data)
	if err != nil {
		w.Add("a usable %s in the node's ConfigMap (%v)", contract.AgentConfigKey, err)
	}
	return config
}

// publication returns the mounted publication, if it is not older than the pin.
func (w *waiting) publication(m Mounted) publication.Publication {
	published, pin := w.Publication(m.Node, m.Pod, m.Process)
	if published.Revision == pin.Revision && !published.SameContent(pin) {
		w.Add("publication revision %d as the pod pins it (another content is mounted)", pin.Revision)
	}
	return published
}

// configuration waits for the ConfigMap that belongs to the publication.
func (w *waiting) configuration(m Mounted, published publication.Publication) {
	mounted := contract.ConfigurationHash(func(key string) []byte { return m.Config[key] })
	if wanted := published.Configuration; wanted != "" && mounted != wanted {
		w.Add("configuration %s in the node's ConfigMap (%s is mounted)", wanted, mounted)
	}
}

// identity reads <file>.crt and <file>.key, which must be the leaf that the
// publication names.
func (w *waiting) identity(node Directory, file, name string, p publication.Publication) Identity {
	wanted, named := p.Identities[name]
	if !named {
		w.Add("publication revision %d to name the leaf of %s", p.Revision, name)
		return Identity{}
	}
	identity, problem := readIdentity(node, file)
	if problem != "" {
		w.Add("leaf %s of %s (%s)", wanted, name, problem)
		return Identity{}
	}
	if found := identity.Fingerprint(); found != wanted {
		w.Add("leaf %s of %s (%s is mounted)", wanted, name, found)
	}
	if name == publication.NodeIdentity {
		w.chain(identity.Chain[1:], p.Chain)
	}
	return identity
}

// chain waits for the certificates that are to be presented with the node's
// leaf, in their order. A publication that names none says nothing about them.
func (w *waiting) chain(mounted []*x509.Certificate, wanted []string) {
	if len(wanted) == 0 {
		return
	}
	found := fingerprints(mounted)
	if !slices.Equal(found, wanted) {
		w.Add("the chain %s of the node's leaf (%s is mounted)", listed(wanted), listed(found))
	}
}

func fingerprints(certs []*x509.Certificate) []string {
	list := make([]string, 0, len(certs))
	for _, cert := range certs {
		list = append(list, pki.FingerprintOf(cert).String())
	}
	return list
}

func listed(fingerprints []string) string {
	if len(fingerprints) == 0 {
		return "without a certificate"
	}
	return strings.Join(fingerprints, ", ")
}

// trust returns exactly the anchors that the publication names for the store.
func (w *waiting) trust(anchors map[string]*x509.Certificate, store publication.Store, p publication.Publication) []*x509.Certificate {
	named := p.Trust[store.Role]
	if len(named) == 0 {
		w.Add("publication revision %d to name an anchor for %s", p.Revision, store.Role)
		return nil
	}
	found, missing := sortedAnchors(anchors, named)
	for _, fingerprint := range missing {
		w.Add("anchor %s of the %s authority for %s", fingerprint, store.Trust, store.Role)
	}
	return found
}
