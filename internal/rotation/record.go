package rotation

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// ConfigMapName is the name of the ConfigMap that holds a cluster's records.
func ConfigMapName(cluster string) string { return cluster + "-trust" }

// Key is the key of a domain's record in the binary data of that ConfigMap.
func Key(domain string) string { return domain + ".json.gz" }

// Record is what the operator decided from, and what people want to know beside
// it. It holds fingerprints, names and times, and never key material.
type Record struct {
	// Words are what people call what the record is about. They are not recorded.
	Words *Words `json:"-"`
	// Cluster is the name of the cluster, Domain that of the authority, as its Secrets
	// have it.
	Cluster string `json:"cluster"`
	Domain  string `json:"domain"`
	// Snapshot is exactly what was decided from; its Now is when the record last
	// changed.
	Snapshot trust.Snapshot `json:"snapshot"`
	// StartedAt is when the rotation that is under way began; zero when nothing is
	// left to do. Following fills it.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// UserProvided is true when the user writes the authority's Secrets: then the
	// operator changes nothing in the application bundle.
	UserProvided bool `json:"userProvided,omitempty"`
	// Refused says what is wrong with the Secrets of an authority that cannot be used;
	// empty while it can.
	Refused string `json:"refused,omitempty"`
	// Anchors describes the snapshot's anchors for people.
	Anchors map[trust.AnchorID]AnchorName `json:"anchors,omitempty"`
	// Members describes the snapshot's members for people.
	Members map[trust.MemberID]MemberFacts `json:"members,omitempty"`
	// Versions maps "Secret <name>" to the resourceVersion of what was observed,
	// so that a reader sees whether something has moved since.
	Versions map[string]string `json:"versions,omitempty"`
	// RestartSeconds is the mean time from the deletion of a pod to its being ready
	// again, ReloadSeconds that from a publication to the proof that it is loaded;
	// 0 when not measured yet.
	RestartSeconds float64 `json:"restartSeconds,omitempty"`
	ReloadSeconds  float64 `json:"reloadSeconds,omitempty"`
}

// Following returns the record with the time at which its rotation began, which is
// that of the record before it while nothing was settled in between. The record
// before may be empty; the plan is that of this one.
func (r Record) Following(before Record, plan trust.Plan) Record {
	switch {
	case r.Words.Settled(r.Words.PhaseOf(r.Snapshot, plan)):
		r.StartedAt = time.Time{}
	case !before.StartedAt.IsZero():
		r.StartedAt = before.StartedAt
	default:
		r.StartedAt = r.Snapshot.Now
	}
	return r
}

// Lasting returns the snapshot with the times since when its members are as they are: a role
// that is as it is in the record has been so since it came to be so there. Otherwise who is
// waited for would seem to be waited for since the operator was started. What was before a
// member's pod was made is not told of that pod; made has when that was. A process whose
// Secret is lost is waited for since the loss, however long it has run as it does.
func (r Record) Lasting(s trust.Snapshot, made map[trust.MemberID]time.Time) trust.Snapshot {
	before := map[trust.MemberID]*trust.Member{}
	for i := range r.Snapshot.Members {
		before[r.Snapshot.Members[i].ID] = &r.Snapshot.Members[i]
	}
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		m := &s.Members[i]
		was, known := before[m.ID]
		if !known || was.Leaving != m.Leaving || !was.Published.Same(m.Published) {
			was = &trust.Member{}
		}
		m.Roles = lasting(m.Roles, was.Roles, made[m.ID])
		if m.Published.Same(trust.Publication{}) {
			m.Roles = sinceLoss(m.Roles, was.Roles, s.Now)
		}
	}
	return s
}

func lasting(roles, before []trust.Role, made time.Time) []trust.Role {
	roles = slices.Clone(roles)
	for i := range roles {
		now := &roles[i].Evidence
		if was := same(&roles[i], before); !was.IsZero() && was.Before(now.Since) && !was.Before(made) {
			now.Since = was
		}
	}
	return roles
}

// sinceLoss are the roles of a member whose Secret is lost: since now, or since it was found
// lost before, where they run.
func sinceLoss(roles, before []trust.Role, now time.Time) []trust.Role {
	roles = slices.Clone(roles)
	for i := range roles {
		e := &roles[i].Evidence
		if e.Process != trust.ProcessRunning {
			continue
		}
		e.Since = now
		if was := same(&roles[i], before); !was.IsZero() && was.Before(now) {
			e.Since = was
		}
	}
	return roles
}

// same is since when a role was as it is, zero if it was not.
func same(role *trust.Role, before []trust.Role) time.Time {
	at := slices.IndexFunc(before, func(was trust.Role) bool { return was.Name == role.Name })
	if at < 0 || !role.Evidence.Same(&before[at].Evidence) {
		return time.Time{}
	}
	return before[at].Evidence.Since
}

// Plan is what the operator does next.
func (r Record) Plan() trust.Plan { return r.planFor(r.Snapshot) }

func (r Record) planFor(s trust.Snapshot) trust.Plan {
	plan := trust.Decide(s)
	if r.UserProvided {
		plan.Application = s.Application.Anchors
	}
	return plan
}

// AnchorName is what people know an anchor by. It identifies nothing.
type AnchorName struct {
	// CommonName is that of the subject, for example "cluster-ca v1".
	CommonName string `json:"cn,omitempty"`
	// SHA1 is the name in the trusted-certs Secret, in lower-case hex.
	SHA1      string    `json:"sha1,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Entry is where the owner of the authority keeps it, for example "ca-2027-03-01T12-00-00Z.crt of Secret
	// my-cluster-ca-cert"; empty when only Keyturn keeps it.
	Entry string `json:"entry,omitempty"`
	// LostTo names those who read the Secret of the anchor's owner, and do not find
	// there what verifies its leaves.
	LostTo Readers `json:"lostTo,omitempty"`
	// Above is true of an anchor that stands in its owner's ca.crt as an issuer of the
	// CA that signs leaves: nodes send along what leads up to it.
	Above bool `json:"above,omitempty"`
	// CrossSignBlocked says why the anchor's authority cannot sign a cross certificate
	// for its successor; empty when it can.
	CrossSignBlocked string `json:"cannotVouch,omitempty"`
}

// MemberFacts is what is known of a member beyond what decides.
type MemberFacts struct {
	// Leaf is the SHA-256, in lower-case hex, of the leaf that the member has
	// proven to present; LeafNotAfter is its end.
	Leaf         string    `json:"leaf,omitempty"`
	LeafNotAfter time.Time `json:"leafNotAfter,omitzero"`
	// Published, Mounted and Loaded are revisions of the member's publication; 0 when there is none, or it
	// is unknown.
	Published int64 `json:"published,omitempty"`
	Mounted   int64 `json:"mounted,omitempty"`
	Loaded    int64 `json:"loaded,omitempty"`
	// StartedAt is when the process was started; zero when that is unknown.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// RestartDue is when the process has to be restarted at the latest, because
	// of what it keeps from its start; zero when nothing ends.
	RestartDue time.Time `json:"restartDue,omitzero"`
	// Trouble says what went wrong with the last reload or why the member does not
	// answer, in one sentence; empty when nothing did.
	Trouble string `json:"trouble,omitempty"`
}
