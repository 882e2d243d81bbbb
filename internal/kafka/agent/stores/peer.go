package stores

import (
	"crypto/x509"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Peer is what a process beside the nodes presents to them, and by which CAs it verifies theirs.
type Peer struct {
	Publication publication.Publication
	Identity    Identity
	// Trusts is sorted by fingerprint and not empty.
	Trusts []*x509.Certificate
}

// MatchPeer decides whether the mounts of a process beside the nodes are what its pod pins, or newer. The leaf is in
// the files <certificate>.crt and <certificate>.key. The error, if any, is an agent.WaitingError that names everything
// missing at once.
func MatchPeer(m Mounted, certificate string) (Peer, error) {
	w := &waiting{}
	matched := Peer{Publication: w.publication(m)}
	if !w.Empty() {
		return Peer{}, w.Err()
	}
	matched.Identity = w.identity(m.Node, certificate, publication.NodeIdentity, matched.Publication)
	store := publication.Store{Role: publication.AgentRole, Trust: contract.ClusterDomain}
	matched.Trusts = w.trust(Anchors(m.ClusterTrust), store, matched.Publication)
	if !w.Empty() {
		return Peer{}, w.Err()
	}
	return matched, nil
}
