package model

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Reasons of what members report of their certificates.
const (
	CertificatesLoaded Reason = "CertificatesLoaded"
	AgentSilent        Reason = "AgentSilent"
	MountRefused       Reason = "MountRefused"
	OldCertificate     Reason = "OldCertificate"
)

const (
	// silenceGrace is how long an agent may be silent before that is a finding.
	silenceGrace = time.Minute
	// refusalGrace is how long an agent may refuse what is mounted: a kubelet mounts its parts one after the other.
	refusalGrace = 2 * time.Minute
	// loadGrace is how long it may take until etcd presents a certificate that was issued to its pod.
	loadGrace = 10 * time.Minute
	// maxTrusted is how many CAs of a plane the status names.
	maxTrusted = 16
	// lastYear is the last that RFC 3339 can name.
	lastYear = 9999
)

// Reported is what is known of the certificates that the etcd of a member has loaded.
type Reported struct {
	// IsPolled is true once its agent has been polled.
	IsPolled bool
	// Report is the latest report of the agent, and nil while it does not answer. Silence says why not, and Since is when that
	// or the report began.
	Report  *publication.Report
	Silence Silence
	Since   time.Time
	// Issued are the certificates that were issued to the pod of the member last, by plane.
	Issued map[contract.Plane]*x509.Certificate
}

// Silence is why an agent does not report.
type Silence uint8

// The kinds of silence.
const (
	// Unreachable: nothing answers in time.
	Unreachable Silence = iota
	// OperatorRejected: the agent does not accept the certificate of the operator.
	OperatorRejected
	// Unproven: what answers does not prove that it is the agent of the member.
	Unproven
	// Unreadable: the answer is not a report.
	Unreadable
)

// message says why an agent does not report, and what a person can do.
func (s Silence) message(member string) string {
	switch s {
	case OperatorRejected:
		return fmt.Sprintf("The agent of member %s rejects the certificate of the operator, and does not report which certificates etcd presents. See the log of the pod, and whether its clock is right.", member)
	case Unproven:
		return fmt.Sprintf("Port 8443 of member %s presents a certificate that the operator did not issue to it. It is not known which certificates etcd presents. Find out what answers at the address of the pod.", member)
	case Unreadable:
		return fmt.Sprintf("The agent of member %s answers with something other than a report. It is not known which certificates etcd presents. See the log of the pod, and which image its agent is from.", member)
	default:
		return fmt.Sprintf("The agent of member %s does not answer on port 8443. It is not known which certificates etcd presents. See policies of the network between the operator and the pod.", member)
	}
}

// IsSilent reports whether its agent did not answer when it was polled last.
func (r Reported) IsSilent() bool { return r.IsPolled && r.Report == nil }

// finding is what a report comes to.
type finding struct {
	status  metav1.ConditionStatus
	problem Problem
	// due is when the report will be a problem unless it changes; zero when it is not on the way to one.
	due time.Time
}

// find judges what is known of a member.
func (r Reported) find(member string, now time.Time) finding {
	switch {
	case !r.IsPolled:
		return finding{status: metav1.ConditionUnknown}
	case r.IsSilent():
		return since(r.Since.Add(silenceGrace), now, metav1.ConditionUnknown, Problem{AgentSilent, r.Silence.message(member)})
	case r.Report.Reload.Failure != "":
		return since(r.Since.Add(refusalGrace), now, metav1.ConditionFalse, Problem{MountRefused, fmt.Sprintf(
			"Member %s reports: %s See what has changed its Secret, its pod or its annotations.", member, excerpt.Of(r.Report.Reload.Failure, excerpt.Foreign))})
	default:
		return r.findOld(member, now)
	}
}

// findOld finds a certificate that etcd should have replaced. Of both planes the one whose replacement is due first counts.
func (r Reported) findOld(member string, now time.Time) finding {
	found := finding{status: metav1.ConditionTrue}
	for _, plane := range contract.Planes() {
		next, isOld := r.oldOf(member, plane, now)
		if isOld && (found.status == metav1.ConditionTrue || next.problem.Reason != "" || next.due.Before(found.due)) {
			found = next
		}
		if found.problem.Reason != "" {
			break
		}
	}
	return found
}

// oldOf is what an old certificate of a plane comes to, and whether there is one. One that was issued later than what is known
// of the pod is not old: caches lag.
func (r Reported) oldOf(member string, plane contract.Plane, now time.Time) (found finding, isOld bool) {
	role, isRunning := r.Report.Roles[plane.Role()]
	issued := r.Issued[plane]
	if !isRunning || issued == nil || role.Presents == pki.FingerprintOf(issued).String() {
		return finding{}, false
	}
	presented, err := pki.CertificateOf(r.Report.Certificates[role.Presents])
	if err == nil && presented.NotBefore.After(issued.NotBefore) {
		return finding{}, false
	}
	return since(issued.NotBefore.Add(pki.Backdate+loadGrace), now, metav1.ConditionFalse, Problem{OldCertificate, fmt.Sprintf(
		"Member %s presents a %s certificate that expires at %s, although another one was issued that expires at %s. See the log of the pod, and whether the kubelet of its machine runs.",
		member, plane, evidence.LeafEnd(*r.Report, role).UTC().Format(time.RFC3339), issued.NotAfter.UTC().Format(time.RFC3339))}), true
}

// since is a problem from a time on.
func since(due, now time.Time, status metav1.ConditionStatus, problem Problem) finding {
	if now.Before(due) {
		return finding{status: metav1.ConditionUnknown, due: due}
	}
	return finding{status: status, problem: problem}
}

// ReportedProblemAt is when what members report will be a problem unless it changes; zero when nothing is on the way to one.
func ReportedProblemAt(reported map[string]Reported, now time.Time) (first time.Time) {
	for member, known := range reported {
		due := known.find(member, now).due
		if !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// certificatesLoaded says what members report of their certificates. What is stored counts until all of them have
// reported.
func certificatesLoaded(members []etcdv1beta2.MemberStatus, seen Seen) []metav1.Condition {
	if len(seen.Reported) == 0 {
		return nil
	}
	isKnown := true
	for i := range members {
		known, isTracked := seen.Reported[members[i].Name]
		if !isTracked {
			continue
		}
		found := known.find(members[i].Name, seen.Now)
		if found.problem.Reason != "" {
			return []metav1.Condition{newCondition(etcdv1beta2.ConditionCertificatesLoaded, found.status, found.problem.Reason, found.problem.Message)}
		}
		isKnown = isKnown && found.status == metav1.ConditionTrue
	}
	if isKnown {
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionCertificatesLoaded, metav1.ConditionTrue, CertificatesLoaded, "etcd presents the certificates that were issued to its members.")}
	}
	if stored := apimeta.FindStatusCondition(seen.Before.Conditions, etcdv1beta2.ConditionCertificatesLoaded); stored != nil {
		return []metav1.Condition{*stored}
	}
	return nil
}

// loaded is what the status says of a member. What is stored of its pod counts until it has reported, and while it may
// only be slow to answer.
func (seen Seen) loaded(member etcdv1beta2.MemberStatus) []etcdv1beta2.LoadedPlane {
	known, isTracked := seen.Reported[member.Name]
	switch {
	case !isTracked:
		return nil
	case known.Report != nil:
		return loadedPlanes(*known.Report)
	case known.find(member.Name, seen.Now).problem.Reason != "":
		return nil
	}
	at := slices.IndexFunc(seen.Before.MemberStatuses, func(before etcdv1beta2.MemberStatus) bool {
		return before.Name == member.Name && before.PodUID == member.PodUID
	})
	if at < 0 {
		return nil
	}
	return seen.Before.MemberStatuses[at].Loaded
}

// loadedPlanes is a report as the status has it. What an agent does not write is left out: it would keep the status from
// being stored.
func loadedPlanes(report publication.Report) (loaded []etcdv1beta2.LoadedPlane) {
	for _, plane := range contract.Planes() {
		role, isRunning := report.Roles[plane.Role()]
		if !isRunning {
			continue
		}
		entry := etcdv1beta2.LoadedPlane{Plane: string(plane), Trusts: named(role.Trusts), NotAfter: storable(evidence.LeafEnd(report, role))}
		if presents := named([]string{role.Presents}); len(presents) > 0 {
			entry.Presents = presents[0]
		}
		loaded = append(loaded, entry)
	}
	return loaded
}

// named are the names that are fingerprints, up to as many as the status has room for.
func named(names []string) (fingerprints []string) {
	for _, fingerprint := range Fingerprints(names) {
		if len(fingerprints) < maxTrusted {
			fingerprints = append(fingerprints, fingerprint.String())
		}
	}
	return fingerprints
}

// storable is a time as Kubernetes stores it; nil when it cannot be.
func storable(at time.Time) *metav1.Time {
	at = at.UTC().Truncate(time.Second)
	if at.IsZero() || at.Year() > lastYear {
		return nil
	}
	return new(metav1.NewTime(at))
}
