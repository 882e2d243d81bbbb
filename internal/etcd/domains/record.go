package domains

import (
	"time"

	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Record is what was decided from about the CA of a plane. Versions are those of the Secrets of the CA.
func (s *Seen) Record(plane contract.Plane, decided *domain.Decided) rotation.Record {
	record := decided.Record(Words(s.Cluster.Names.Namespace, plane), s.Cluster.Names.Cluster, Recorded(plane))
	record.Versions = s.Secrets[plane].Versions
	for i := range s.Members {
		member := &s.Members[i]
		facts := member.facts(plane)
		for _, load := range decided.Plan.Loads {
			if load.Member == trust.MemberID(member.Name) {
				facts.RestartDue = load.Due
			}
		}
		record.Members[trust.MemberID(member.Name)] = facts
	}
	if plane == contract.ClientPlane && len(s.Operator) > 0 {
		record.Members[evidence.OperatorMember] = rotation.MemberFacts{Leaf: pki.FingerprintOf(s.Operator[0]).String(), LeafNotAfter: s.Operator[0].NotAfter}
	}
	return record
}

// facts tell people how far a member is.
func (m *Member) facts(plane contract.Plane) rotation.MemberFacts {
	facts := rotation.MemberFacts{Published: m.Published.Revision}
	switch m.State {
	case evidence.Unknown:
		facts.Trouble = "its agent does not answer"
	case evidence.Running:
		facts.Loaded, facts.StartedAt = m.Report.Revision, m.Report.StartedAt
		if m.Report.Mounted != nil {
			facts.Mounted = m.Report.Mounted.Revision
		}
		facts.Leaf, facts.LeafNotAfter = m.Report.Roles[plane.Role()].Presents, m.Report.Roles[plane.Role()].NotAfter
	default:
	}
	return facts
}

// MountedAfter is how long it took since its publication until a member has mounted what is published, if it had not by the
// records before.
func (m *Member) MountedAfter(before map[string]rotation.Record, now time.Time) (took time.Duration, isNew bool) {
	mounted := m.Report.Mounted
	if mounted == nil || mounted.Revision != m.Published.Revision {
		return 0, false
	}
	for _, record := range before { // all records of a cluster know the same of it
		if known := record.Members[trust.MemberID(m.Name)].Mounted; known > 0 {
			return now.Sub(m.Published.PublishedAt), known < mounted.Revision
		}
	}
	return 0, false
}
