package publication

import (
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Report is what an agent answers about TLS: what the running server has loaded,
// as opposed to what is mounted or wished for.
type Report struct {
	// Revision is the publication whose stores the server runs on: the one it was
	// started on, or the last one it has reloaded completely; 0 before the start
	// and after the end.
	Revision int64 `json:"revision"`
	// StartedAt is when the server process was started.
	StartedAt time.Time `json:"startedAt"`
	// Roles holds one entry per TLS listener, one per client that keeps what it was
	// started with, and AgentRole.
	Roles map[Role]RoleReport `json:"roles"`
	// Unknown are the listeners of the running server of which it is not known what
	// they have loaded, sorted.
	Unknown []Role `json:"unknown,omitempty"`
	// Loading are publications that the server was told to load, and of which it is
	// not proven that it has, or has not. It may come to run on any of them, also when
	// something newer is mounted.
	Loading []Publication `json:"loading,omitempty"`
	// Mounted is the publication that is mounted now, and that a server started
	// now would load; nil while the mounts are between two states.
	Mounted *Publication `json:"mounted,omitempty"`
	// Certificates holds the DER of every certificate that Roles name, and of those
	// that Mounted names as presented, by its SHA-256 in lower-case hex. A process may
	// hold anchors that are in no Secret any more.
	Certificates map[string][]byte `json:"certificates,omitempty"`
	// Reload is what became of the last reload.
	Reload ReloadReport `json:"reload,omitzero"`
}

// RoleReport is what one role trusts and presents. Fingerprints are the SHA-256
// of the DER in lower-case hex, sorted unless said otherwise.
type RoleReport struct {
	Trusts   []string `json:"trusts"`
	Presents string   `json:"presents"`
	// Chain is what is presented with the leaf, in its order.
	Chain []string `json:"chain,omitempty"`
	// NotAfter is the earliest end of anything the role presents.
	NotAfter time.Time `json:"notAfter"`
	// Dynamic is true when settings of a reload stand in the server's metadata:
	// they win over what the server is started with.
	Dynamic bool `json:"dynamic,omitempty"`
}

// ReloadReport says how the newest mounted publication that differs from what is
// loaded fares.
type ReloadReport struct {
	// Revision is the publication that the agent has dealt with; 0 when it has with
	// none.
	Revision int64 `json:"revision,omitempty"`
	// Failure is empty when nothing was to be done or it was proven by handshakes,
	// else one sentence for people without key material.
	Failure string `json:"failure,omitempty"`
	// Refused is true when the server itself caused the failure: it does not accept the stores, or presents
	// others than it was told to load. Otherwise it could not be asked, or the quorum had no leader: that
	// passes.
	Refused bool `json:"refused,omitempty"`
	// Early is true when the reason of the failure is that a certificate to be presented
	// is not valid yet by the clock of the node: that passes. A start would load it.
	Early bool `json:"early,omitempty"`
}

// RoleReportOf says what a role with the chain, leaf first, and the anchors presents and trusts.
func RoleReportOf(chain, trusts []*x509.Certificate) RoleReport {
	return RoleReport{
		Trusts:   fingerprints(trusts),
		Presents: pki.FingerprintOf(chain[0]).String(),
		Chain:    inOrder(chain[1:]),
		NotAfter: pki.EarliestEnd(chain).UTC(),
	}
}
