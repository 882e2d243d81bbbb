package publication

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Role names a part of a member that trusts or presents something by itself: a
// listener of its server, a client that it is, or its agent. That of a listener ends with
// its port, for example "replication-9091".
type Role string

// Port is the port that the name of a listener ends with, and whether it ends with one.
func (r Role) Port() (int, bool) {
	i := strings.LastIndexByte(string(r), '-')
	port, err := strconv.ParseUint(string(r[i+1:]), 10, 16)
	return int(port), err == nil && i >= 0
}

// NodeIdentity names the node's own leaf among the identities of a publication;
// custom listener certificates are named by their Role.
const NodeIdentity = "node"

// AgentRole names, among the roles of a publication's trust, the agent's own
// server and the anchors it accepts operators by.
const AgentRole Role = "agent"

// Domain names the authority whose anchors a listener trusts.
type Domain string

// Store says where the key store and the trust store of one listener come from.
type Store struct {
	Role Role `json:"listener"`
	// Identity is NodeIdentity, or the listener itself when it has a custom
	// certificate.
	Identity string `json:"identity"`
	Trust    Domain `json:"trust"`
}

// Loading says how a node gets what is published to it.
type Loading string

// The ways of loading.
const (
	// LoadByReload: the agent lets the running server reload its stores. It is the
	// meaning of an empty value.
	LoadByReload Loading = "reload"
	// LoadByRestart: stores are loaded when the server starts. Settings of earlier
	// reloads are deleted as soon as the server was started with what is mounted.
	LoadByRestart Loading = "restart"
)

// Publication says which anchors and leaves the node is to load. The operator
// writes it into the node's Secret together with the leaf, so that one object
// says what belongs together although three volumes carry it.
type Publication struct {
	// Revision grows by one with every change and never goes backwards. It is at most
	// MaxRevision.
	Revision int64 `json:"revision"`
	// Identities maps NodeIdentity and listeners with a certificate of their own
	// to the SHA-256 of the leaf's DER, in lower-case hex.
	Identities map[string]string `json:"identities"`
	// Trust maps each role to the sorted SHA-256 fingerprints (lower-case hex of
	// the DER) of exactly the anchors it shall accept peers by.
	Trust map[Role][]string `json:"trust"`
	// Operators are the SHA-256 fingerprints (lower-case hex of the DER) of the
	// operator's own leaves. The agent answers their holder even after they have
	// expired, so that evidence does not end with the certificates it is about.
	Operators []string `json:"operators,omitempty"`
	// Loading is how the node gets the stores; empty means LoadByReload.
	Loading Loading `json:"loading,omitempty"`
	// Chain names, in their order, the SHA-256 fingerprints of what is presented
	// with the node's own leaf: intermediates or cross certificates.
	Chain []string `json:"chain,omitempty"`
	// Configuration is the ConfigurationHash of the node's ConfigMap that belongs
	// to the revision; empty when the operator does not say.
	Configuration string `json:"configuration,omitempty"`
	// Proofs maps keys of anchors, by the SHA-256 of their SPKI, to leaves in the node's
	// Secret that such a key has signed, by the SHA-256 of their DER; both in lower-case
	// hex. The agent offers them to the node's own listeners, to tell anchors of one
	// subject apart. Each stands under ProofEntry of its key. No server presents them.
	Proofs map[string]string `json:"proofs,omitempty"`
	// PublishedAt is when the revision was written. The agent reports the time until
	// the mount shows the revision as mount lag; the operator counts from it how long a
	// reload has been tried in vain.
	PublishedAt time.Time `json:"publishedAt,omitzero"`
}

// ProofEntry names, without the endings of certificate and key, the entries of the
// node's Secret with the leaf that proves whether a key's anchor is trusted.
func ProofEntry(key string) string { return "proof-" + key }

// SameContent reports whether both give the same to a server, whatever their revision,
// their time, and the leaves that only prove what it has loaded.
func (p Publication) SameContent(other Publication) bool {
	return p.Configuration == other.Configuration && p.Loading == other.Loading &&
		slices.Equal(p.Chain, other.Chain) &&
		maps.Equal(p.Identities, other.Identities) &&
		maps.EqualFunc(p.Trust, other.Trust, slices.Equal[[]string]) &&
		slices.Equal(p.Operators, other.Operators)
}

// MaxRevision is the highest revision that is believed. The operator cannot reach it by counting.
const MaxRevision int64 = 1 << 40

// errRevision is the reason for rejecting a publication that the operator cannot have written.
var errRevision = errors.New("the operator cannot have counted to its revision")

// ParsePublication reads a publication as the operator wrote it.
func ParsePublication(data []byte) (Publication, error) {
	var p Publication
	if err := json.Unmarshal(data, &p); err != nil {
		return Publication{}, fmt.Errorf("parsing publication: %w", err)
	}
	if p.Revision < 1 || p.Revision > MaxRevision {
		return Publication{}, fmt.Errorf("parsing publication of revision %d: %w", p.Revision, errRevision)
	}
	return p, nil
}

// Encode renders the publication deterministically.
func (p Publication) Encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding publication: %w", err)
	}
	return data, nil
}
