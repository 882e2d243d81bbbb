package stores

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Directory holds the content of one mounted directory by file name.
type Directory map[string][]byte

// Mounted is everything the agent is given, as it was at one moment. The
// directories may be of different moments: the kubelet updates one volume after
// the other. Match finds that out.
type Mounted struct {
	Node, ClusterTrust, ClientsTrust, Config, Pod Directory
	// Process is the one of those that share the pod, empty for one that has it to itself.
	Process string
}

func (m Mounted) trust(d publication.Domain) Directory {
	if d == contract.ClientsDomain {
		return m.ClientsTrust
	}
	return m.ClusterTrust
}

// certificateSuffix ends the names of files with certificates; keySuffix those
// of files with keys.
const (
	certificateSuffix = ".crt"
	keySuffix         = ".key"
)

// Anchors reads every certificate of a mounted trust directory, by fingerprint.
// An entry that cannot be read is left out. A publication that names it finds it missing.
func Anchors(directory Directory) map[string]*x509.Certificate {
	anchors := map[string]*x509.Certificate{}
	for name, data := range directory {
		if !strings.HasSuffix(name, certificateSuffix) {
			continue
		}
		certs, err := pki.ParseBundle(data)
		if err != nil {
			continue
		}
		for _, cert := range certs {
			anchors[pki.FingerprintOf(cert).String()] = cert
		}
	}
	return anchors
}

// Identity is a leaf with what is presented along with it, and its key.
type Identity struct {
	// Chain begins with the leaf.
	Chain []*x509.Certificate
	Key   pki.PrivateKey
}

// Fingerprint is that of the leaf.
func (i Identity) Fingerprint() string { return pki.FingerprintOf(i.Chain[0]).String() }

// readIdentity reads <name>.crt and <name>.key. The problem, if any, is worded
// for people and holds no key material.
func readIdentity(node Directory, name string) (identity Identity, problem string) {
	chain, found := node[name+certificateSuffix]
	key, foundKey := node[name+keySuffix]
	if !found || !foundKey {
		return Identity{}, "it is not mounted"
	}
	certs, err := pki.ParseBundle(chain)
	if err != nil {
		return Identity{}, err.Error()
	}
	private, err := pki.ParsePrivateKey(key)
	if err != nil {
		return Identity{}, err.Error()
	}
	if !private.Matches(certs[0]) {
		return Identity{}, "its key does not belong to its certificate"
	}
	return Identity{Chain: certs, Key: private}, ""
}

// proofs reads the leaves that the publication names as proofs. Nothing waits for
// one: without it less can be proven, and all else goes on.
func proofs(node Directory, p publication.Publication) []Identity {
	var found []Identity
	for _, key := range slices.Sorted(maps.Keys(p.Proofs)) {
		identity, problem := readIdentity(node, publication.ProofEntry(key))
		if problem == "" && identity.Fingerprint() == p.Proofs[key] {
			found = append(found, identity)
		}
	}
	return found
}

// sortedAnchors returns the anchors with the fingerprints, sorted by
// fingerprint, and the fingerprints that are not there.
func sortedAnchors(anchors map[string]*x509.Certificate, fingerprints []string) (found []*x509.Certificate, missing []string) {
	for _, fingerprint := range slices.Compact(slices.Sorted(slices.Values(fingerprints))) {
		if anchor, ok := anchors[fingerprint]; ok {
			found = append(found, anchor)
		} else {
			missing = append(missing, fingerprint)
		}
	}
	return found, missing
}
