package agent

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/agent/status"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

var errNoCertificate = errors.New("the member has no certificate of the client plane yet")

// observer puts what is mounted together with what etcd has loaded. It is safe for
// concurrent use.
type observer struct {
	status.Node

	mu     sync.Mutex
	facing server.Facing
	// chain is what the agent's own server presents.
	chain []*x509.Certificate
	// mounted is the publication that is mounted, nil while etcd could not be started on
	// it; revision is that of the last one that was looked at.
	mounted  *publication.Publication
	revision int64
	// certificates are those that a report names, by fingerprint.
	certificates map[string][]byte
}

// isOperator reports whether the verified client is the operator: other clients of the
// cluster have certificates of the same CA.
func isOperator(subject pkix.Name) bool {
	return slices.Equal(subject.Organization, []string{contract.OperatorOrganization})
}

// granted records what the mounts allow and what the planes present now. loaded is what
// etcd was started under, nil before.
func (o *observer) granted(grant enrollment.Grant, identities map[contract.Plane]*identity, loaded *enrollment.Grant) {
	roles := map[publication.Role]*publication.RoleReport{}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mounted, o.revision, o.certificates = &grant.Publication, grant.Publication.Revision, map[string][]byte{}
	for plane, id := range identities {
		o.remember(id.chain, grant.Anchors[plane])
		if loaded == nil || id.chain == nil {
			continue
		}
		o.remember(loaded.Anchors[plane])
		report := publication.RoleReportOf(id.chain, loaded.Anchors[plane])
		roles[plane.Role()] = &report
	}
	if client := identities[contract.ClientPlane]; client.chain != nil {
		o.chain = client.chain
		o.facing = server.Facing{
			Identity: client.certificate(), Trusts: grant.Anchors[contract.ClientPlane], Operators: grant.Publication.Operators,
		}
	}
	if loaded == nil {
		return
	}
	o.Loaded(roles)
	if sameTrust(grant, *loaded) {
		o.Complete(grant.Publication.Revision)
	}
}

// refused records that etcd could not be started on the mounted publication.
func (o *observer) refused(revision int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mounted, o.revision = nil, revision
}

// sameTrust reports whether etcd, started under loaded, trusts what the grant allows.
func sameTrust(grant, loaded enrollment.Grant) bool {
	for _, plane := range contract.Planes() {
		if !slices.EqualFunc(grant.Anchors[plane], loaded.Anchors[plane], (*x509.Certificate).Equal) {
			return false
		}
	}
	return true
}

func (o *observer) remember(lists ...[]*x509.Certificate) {
	for _, certificate := range slices.Concat(lists...) {
		o.certificates[pki.FingerprintOf(certificate).String()] = certificate.Raw
	}
}

// Facing returns what the agent's own server presents and trusts now.
func (o *observer) Facing() (server.Facing, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chain == nil {
		return server.Facing{}, errNoCertificate
	}
	return o.facing, nil
}

// TLS is the report of etcd's planes, with the agent's own role and what is mounted.
func (o *observer) TLS() publication.Report {
	report := o.Node.TLS()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chain != nil {
		report.Roles[publication.AgentRole] = publication.RoleReportOf(o.chain, o.facing.Trusts)
	}
	report.Mounted, report.Certificates = o.mounted, o.certificates
	return report.Fit([]publication.Role{contract.PeerPlane.Role(), contract.ClientPlane.Role(), publication.AgentRole})
}

// mountedRevision is that of the publication that was looked at last; 0 when there was none.
func (o *observer) mountedRevision() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.revision
}
