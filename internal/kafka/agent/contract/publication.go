package contract

import (
	"encoding/json"
	"fmt"
)

// Listener is the lower-case identifier of a Kafka listener as it stands in
// listener.name.<listener>. settings, for example "replication-9091".
type Listener string

// NodeIdentity names the node's own leaf among the identities of a publication;
// custom listener certificates are named by their Listener.
const NodeIdentity = "node"

// AgentRole names, among the roles of a publication's trust, the agent's own
// server and the anchors it accepts operators by.
const AgentRole Listener = "agent"

// Publication says which anchors and leaves the node is to load. The operator
// writes it into the node's Secret together with the leaf, so that one object
// says what belongs together although three volumes carry it.
type Publication struct {
	// Revision grows by one with every change and never goes backwards.
	Revision int64 `json:"revision"`
	// Identities maps NodeIdentity and listeners with a certificate of their own
	// to the SHA-256 of the leaf's DER, in lower-case hex.
	Identities map[string]string `json:"identities"`
	// Trust maps each role to the sorted SHA-256 fingerprints (lower-case hex of
	// the DER) of exactly the anchors it shall accept peers by.
	Trust map[Listener][]string `json:"trust"`
}

// ParsePublication reads a publication as the operator wrote it.
func ParsePublication(data []byte) (Publication, error) {
	var p Publication
	if err := json.Unmarshal(data, &p); err != nil {
		return Publication{}, fmt.Errorf("parsing publication: %w", err)
	}
	if p.Revision < 1 {
		return Publication{}, fmt.Errorf("parsing publication: revision %d is not positive", p.Revision)
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
