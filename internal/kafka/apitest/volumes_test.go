package apitest

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// What is mounted into a pod, and what a server that starts on it loads.

// volume is one of the directories that a kubelet keeps up to date, each on its
// own.
type volume string

const (
	nodeVolume    volume = "node"
	clusterVolume volume = "cluster-trust"
	clientsVolume volume = "clients-trust"
	configVolume  volume = "config"
)

// kinds are all volumes, in an order in which a kubelet may sync them.
func kinds() []volume { return []volume{nodeVolume, configVolume, clusterVolume, clientsVolume} }

// files is the content of one directory.
type files map[string][]byte

func (f files) equal(other files) bool { return maps.EqualFunc(f, other, bytes.Equal) }

// volumes are the directories of one pod, each as it was at some moment.
type volumes struct {
	pod   string
	files map[volume]files
	certs certificates
}

// certificates keeps what was parsed, since a test looks at the same ones again
// and again.
type certificates map[string][]*x509.Certificate

// in returns the certificates of a PEM text, none when it cannot be read.
func (c certificates) in(text []byte) []*x509.Certificate {
	certs, known := c[string(text)]
	if !known {
		if parsed, err := pki.ParseBundle(text); err == nil {
			certs = parsed
		}
		c[string(text)] = certs
	}
	return certs
}

// stored is what the API server holds, as read last.
type stored struct {
	secrets, configs map[string]files
}

// volumes are what a kubelet mounts that has seen everything.
func (s stored) volumes(pod string, certs certificates) volumes {
	return volumes{pod: pod, certs: certs, files: map[volume]files{
		nodeVolume:    s.secrets[pod],
		clusterVolume: s.secrets[authorities.Cluster.TrustedCertsSecret(clusterName)],
		clientsVolume: s.secrets[authorities.Clients.TrustedCertsSecret(clusterName)],
		configVolume:  s.configs[pod],
	}}
}

// stores is what one role presents and trusts.
type stores struct {
	chain, trust []*x509.Certificate
}

func (s stores) equal(other stores) bool {
	return slices.EqualFunc(s.chain, other.chain, (*x509.Certificate).Equal) &&
		slices.EqualFunc(s.trust, other.trust, (*x509.Certificate).Equal)
}

// content is what a server loads that starts on a set of volumes.
type content struct {
	publication publication.Publication
	config      contract.Config
	// listeners are those with stores; raft is the client of controllers.
	listeners map[publication.Role]stores
	raft      stores
	// properties is the server's configuration.
	properties string
}

// listens reports whether the server has the listener. A node without the controller
// role has stores for the one of controllers, which only its Raft client uses.
func listens(config contract.Config, listener publication.Role) bool {
	return listener != contract.ControlPlaneListener || config.HasRole(contract.RoleController)
}

// errBetween says that volumes do not belong together, or not yet: an agent waits.
var errBetween = errors.New("the volumes are between two states")

func between(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBetween, fmt.Sprintf(format, args...))
}

// content reads what belongs together: exactly the leaf, the chain and the anchors
// that the publication names. It waits for a publication that is as new as the pin.
func (v volumes) content(pinned int64) (content, error) {
	published, err := publication.ParsePublication(v.files[nodeVolume][agent.PublicationKey])
	if err != nil {
		return content{}, between("%v", err)
	}
	if published.Revision < pinned {
		return content{}, between("revision %d is mounted, and the pod is pinned to %d", published.Revision, pinned)
	}
	config, err := contract.ParseConfig(v.files[configVolume][contract.AgentConfigKey])
	if err != nil {
		return content{}, between("%v", err)
	}
	hash := contract.ConfigurationHash(func(key string) []byte { return v.files[configVolume][key] })
	if published.Configuration != "" && published.Configuration != hash {
		return content{}, between("configuration %s is mounted, and %s is published", hash, published.Configuration)
	}
	c := content{
		publication: published, config: config, listeners: map[publication.Role]stores{},
		properties: string(v.files[configVolume][contract.ServerConfigKey]),
	}
	for _, store := range config.Stores {
		if c.listeners[store.Role], err = v.storesOf(store, published); err != nil {
			return content{}, err
		}
	}
	c.raft = c.listeners[contract.ControlPlaneListener]
	if named, given := published.Trust[contract.RaftRole]; given {
		c.raft.trust, err = v.anchors(clusterVolume, named)
	}
	return c, err
}

// storesOf reads what one listener is to present and to trust.
func (v volumes) storesOf(store publication.Store, published publication.Publication) (stores, error) {
	file, domain := v.pod, clusterVolume
	if store.Identity != publication.NodeIdentity {
		file = store.Identity
	}
	if store.Trust == contract.ClientsDomain {
		domain = clientsVolume
	}
	chain := v.certs.in(v.files[nodeVolume][file+".crt"])
	if len(chain) == 0 || len(v.files[nodeVolume][file+".key"]) == 0 || fingerprint(chain[0]) != published.Identities[store.Identity] {
		return stores{}, between("%s: another leaf is mounted than is published", store.Role)
	}
	named := store.Identity == publication.NodeIdentity && len(published.Chain) > 0
	if named && !slices.Equal(fingerprints(chain[1:]), published.Chain) {
		return stores{}, between("%s: another chain is mounted than is published", store.Role)
	}
	trust, err := v.anchors(domain, published.Trust[store.Role])
	return stores{chain: chain, trust: trust}, err
}

// anchors returns exactly the named anchors, sorted by fingerprint.
func (v volumes) anchors(domain volume, named []string) ([]*x509.Certificate, error) {
	mounted := v.mountedAnchors(domain)
	trust := make([]*x509.Certificate, 0, len(named))
	for _, name := range slices.Sorted(slices.Values(named)) {
		anchor, found := mounted[name]
		if !found {
			return nil, between("anchor %.8s is published and not in %s", name, domain)
		}
		trust = append(trust, anchor)
	}
	if len(trust) == 0 {
		return nil, between("no anchor of %s is published", domain)
	}
	return trust, nil
}

func (v volumes) mountedAnchors(domain volume) map[string]*x509.Certificate {
	anchors := map[string]*x509.Certificate{}
	for key, text := range v.files[domain] {
		if !strings.HasSuffix(key, ".crt") {
			continue
		}
		for _, cert := range v.certs.in(text) {
			anchors[fingerprint(cert)] = cert
		}
	}
	return anchors
}

// agent is what the agent's own server presents and trusts: always what is mounted
// now, as far as it is.
func (v volumes) agent() holding {
	published, err := publication.ParsePublication(v.files[nodeVolume][agent.PublicationKey])
	if err != nil {
		return holding{}
	}
	h := holding{chain: v.certs.in(v.files[nodeVolume][v.pod+".crt"]), known: published.Operators}
	mounted := v.mountedAnchors(clusterVolume)
	for _, name := range published.Trust[publication.AgentRole] {
		if anchor, found := mounted[name]; found {
			h.trust = append(h.trust, anchor)
		}
	}
	return h
}

// pinOf is the revision that a pod was created under.
func pinOf(pod *corev1.Pod) int64 {
	var pin publication.Publication
	if err := json.Unmarshal([]byte(pod.Annotations[agent.PinAnnotation]), &pin); err != nil {
		return 0
	}
	return pin.Revision
}

func fingerprint(cert *x509.Certificate) string { return pki.FingerprintOf(cert).String() }

func fingerprints(certs []*x509.Certificate) []string {
	var names []string
	for _, cert := range certs {
		names = append(names, fingerprint(cert))
	}
	return names
}
