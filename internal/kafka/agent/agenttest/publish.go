package agenttest

import (
	"crypto/x509"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
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
	Loading contract.Loading
	// Proofs are the authorities that the node is given leaves of, to prove what it
	// trusts.
	Proofs []pki.Authority
}

// Publish mounts what is wished for into the node's pod under the next revision,
// as a kubelet does it: one volume after the other.
func (n *Node) Publish(tb testing.TB, wish Wish) {
	tb.Helper()
	n.Identity = wish.Identity
	n.leaves = append(n.leaves, wish.Identity.Fingerprint())
	p := n.Publication
	p.Revision++
	p.Loading = wish.Loading
	p.Identities = map[string]string{contract.NodeIdentity: wish.Identity.Fingerprint()}
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
	n.Mounted.Node = maps.Clone(n.Mounted.Node)
	PutIdentity(n.Mounted.Node, "node-"+strconv.Itoa(int(n.ID)), wish.Identity)
	p.Proofs = map[string]string{}
	for _, authority := range wish.Proofs {
		leaf, key := Proof(tb, authority, time.Now()), pki.KeyIDOf(authority.Certificate()).String()
		p.Proofs[key] = leaf.Fingerprint()
		PutIdentity(n.Mounted.Node, contract.ProofEntry(key), leaf)
	}
	PutPublication(tb, n.Mounted.Node, p)
	n.Publication = p
	n.Mounted.ClusterTrust = TrustDirectory(slices.Concat(wish.Cluster, wish.Raft)...)
	n.Mounted.ClientsTrust = TrustDirectory(wish.Clients...)
	WriteVolume(tb, n.options.Mounts.Node, n.Mounted.Node)
	WriteVolume(tb, n.options.Mounts.ClusterTrust, n.Mounted.ClusterTrust)
	WriteVolume(tb, n.options.Mounts.ClientsTrust, n.Mounted.ClientsTrust)
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
