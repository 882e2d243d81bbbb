package agenttest

import (
	"crypto/x509"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Wish is what a node is to present and to trust from now on.
type Wish struct {
	// Identity is the node's own.
	Identity stores.Identity
	// Cluster and Clients are trusted on the listeners of either domain.
	Cluster, Clients []*x509.Certificate
	// Raft is trusted by the Raft client at start; nil means Cluster.
	Raft []*x509.Certificate
	// Loading is how.
	Loading publication.Loading
	// Proofs are the authorities that the node is given leaves of, to prove what it
	// trusts.
	Proofs []pki.Authority
}

// Publish mounts what is wished for into the node's pod under the next revision,
// as a kubelet does it: one volume after the other.
func (n *Node) Publish(tb testing.TB, wish Wish) {
	tb.Helper()
	n.Identity = wish.Identity
	p := n.Publication
	p.Revision++
	p.Loading = wish.Loading
	p.Identities = map[string]string{publication.NodeIdentity: wish.Identity.Fingerprint()}
	p.Chain = Fingerprints(wish.Identity.Chain[1:]...)
	p.Trust = maps.Clone(p.Trust)
	delete(p.Trust, contract.RaftRole)
	for listener := range p.Trust {
		p.Trust[listener] = sorted(wish.Cluster)
		if listener == TLSListener || listener == OpenListener {
			p.Trust[listener] = sorted(wish.Clients)
		}
	}
	if wish.Raft != nil {
		p.Trust[contract.RaftRole] = sorted(wish.Raft)
	}
	node := maps.Clone(n.Mounted.Node)
	PutIdentity(node, n.Name(), wish.Identity)
	p.Proofs = map[string]string{}
	for _, authority := range wish.Proofs {
		leaf, key := Proof(tb, authority, time.Now()), pki.KeyIDOf(authority.Certificate()).String()
		p.Proofs[key] = leaf.Fingerprint()
		PutIdentity(node, publication.ProofEntry(key), leaf)
	}
	PutPublication(tb, node, p)
	n.Publication = p
	n.Mount(tb, stores.Mounted{
		Node: node, ClusterTrust: TrustDirectory(slices.Concat(wish.Cluster, wish.Raft)...), ClientsTrust: TrustDirectory(wish.Clients...),
	})
}

// Name is that of the node's pod, and of the files with its leaf.
func (n *Node) Name() string { return "node-" + strconv.Itoa(int(n.ID)) }

// Mount gives those of the first three volumes another content that are not nil, one
// after the other. From then on, the agent is recognised by the leaf in them, too.
func (n *Node) Mount(tb testing.TB, content stores.Mounted) {
	tb.Helper()
	if certs, err := pki.ParseBundle(content.Node[n.Name()+".crt"]); err == nil {
		n.leaves = append(n.leaves, pki.FingerprintOf(certs[0]).String())
	}
	for _, volume := range []struct {
		path      string
		holds     *stores.Directory
		directory stores.Directory
	}{
		{n.options.Mounts.Node, &n.Mounted.Node, content.Node},
		{n.options.Mounts.ClusterTrust, &n.Mounted.ClusterTrust, content.ClusterTrust},
		{n.options.Mounts.ClientsTrust, &n.Mounted.ClientsTrust, content.ClientsTrust},
	} {
		if volume.directory != nil {
			*volume.holds = volume.directory
			mounttest.WriteVolume(tb, volume.path, volume.directory)
		}
	}
}

func sorted(certs []*x509.Certificate) []string {
	return slices.Sorted(slices.Values(Fingerprints(certs...)))
}

// Fingerprints names certificates as publications and reports do.
func Fingerprints(certs ...*x509.Certificate) []string {
	list := make([]string, 0, len(certs))
	for _, cert := range certs {
		list = append(list, pki.FingerprintOf(cert).String())
	}
	return list
}
