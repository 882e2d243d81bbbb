package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/rotation"
)

// Question is what is asked about a cluster.
type Question struct {
	Now time.Time
	// Within is the time within which no certificate may expire; zero leaves it to the renewal settings.
	Within time.Duration
}

const (
	day = 24 * time.Hour
	// restartGrace is how long a restart that is due may take its turn behind others.
	restartGrace = time.Hour
)

// Decide finds what is wrong with one cluster.
func Decide(s Snapshot, q Question) []Finding {
	e := examination{Snapshot: s, Question: q}
	e.readiness()
	e.rotations()
	e.users()
	e.certificates()
	e.restarts()
	e.unread()
	return e.findings
}

// examination is one snapshot with what was found so far.
type examination struct {
	Snapshot
	Question

	findings []Finding
}

func (e *examination) add(kind Kind, when time.Time, what, remedy string) {
	e.findings = append(e.findings, Finding{
		Namespace: e.Namespace, Object: e.Object, Kind: kind, What: what, When: when.UTC(), Remedy: remedy,
	})
}

// condition is the first of a type and status.
func (e *examination) condition(kind, status string) (Condition, bool) {
	i := slices.IndexFunc(e.Conditions, func(c Condition) bool { return c.Type == kind && c.Status == status })
	if i < 0 {
		return Condition{}, false
	}
	return e.Conditions[i], true
}

// warns reports whether the operator warns for one of these reasons.
func (e *examination) warns(reasons ...string) bool {
	return slices.ContainsFunc(e.Conditions, func(c Condition) bool { return isWarning(c) && slices.Contains(reasons, c.Reason) })
}

func isWarning(c Condition) bool { return c.Type == "Warning" && c.Status == isTrue }

// The statuses of a condition.
const (
	isTrue  = "True"
	isFalse = "False"
)

// readiness looks for the one condition that says how the cluster is. Strimzi's NotReady takes the place
// of Ready=False.
func (e *examination) readiness() {
	if len(e.Conditions) == 0 {
		e.add(NoStatus, time.Time{}, "no operator has written a status", "Check that an operator runs and watches namespace "+e.Namespace+".")
		return
	}
	if paused, is := e.condition("ReconciliationPaused", isTrue); is {
		e.add(Paused, paused.Since, "reconciliation is paused, and no certificate is renewed", "Remove the annotation strimzi.io/pause-reconciliation.")
		return
	}
	if not, is := e.condition("NotReady", isTrue); is {
		e.notReady(not)
		return
	}
	if _, is := e.condition("Ready", isTrue); is {
		return
	}
	i := slices.IndexFunc(e.Conditions, func(c Condition) bool { return c.Type == "Ready" })
	if i < 0 {
		e.notReady(Condition{Message: "there is no condition Ready"})
		return
	}
	e.notReady(e.Conditions[i])
}

func (e *examination) notReady(c Condition) {
	e.add(NotReady, c.Since, withReason(c), "Do what the message says. All conditions: "+e.Look)
}

func withReason(c Condition) string {
	switch {
	case c.Reason == "":
		return c.Message
	case c.Message == "":
		return c.Reason
	default:
		return c.Reason + ": " + c.Message
	}
}

// rotations finds those that wait for a person.
func (e *examination) rotations() {
	for _, r := range e.Rotations {
		if r.Phase == rotation.Blocked || r.Phase == rotation.AuthorityMissing {
			e.add(RotationBlocked, time.Time{}, fmt.Sprintf("%s is %s: %s", r.CA, r.Phase, r.Message), "Do what the message says. Who is waited for: "+e.Look)
		}
	}
}

func (e *examination) users() {
	if missing := e.Users.Total - e.Users.Ready; missing > 0 {
		e.add(UsersNotReady, time.Time{}, fmt.Sprintf("%d of %d KafkaUsers are not ready", missing, e.Users.Total),
			"See the conditions of the KafkaUsers: kubectl get kafkausers -n "+e.Namespace)
	}
}

func (e *examination) certificates() {
	for _, c := range e.Certificates {
		e.certificate(c)
	}
	e.reported()
}

// certificate judges one by its end. A time that was asked about counts whatever renews the certificate.
func (e *examination) certificate(c Certificate) {
	left := c.NotAfter.Sub(e.Now)
	switch {
	case left <= 0:
		e.expired(c)
	case left <= e.Within:
		e.add(ExpiresSoon, c.NotAfter, c.Name+" expires in "+Period(left), e.remedy(c))
	case c.Renewer == ByOperator && left < c.Renewal-e.grace(c.Renewal):
		e.add(RenewalOverdue, c.NotAfter, fmt.Sprintf("%s expires in %s and was due for renewal %s before its end", c.Name, Period(left), Period(c.Renewal)), e.late())
	case c.Renewer == ByOwner && e.Within == 0 && left <= c.Renewal:
		e.add(ExpiresSoon, c.NotAfter, c.Name+" expires in "+Period(left), e.remedy(c))
	}
}

func (e *examination) expired(c Certificate) {
	switch c.Renewer {
	case ByOperator:
		e.add(Expired, c.NotAfter, c.Name+" has expired", e.late())
	case ByOwner:
		e.add(Expired, c.NotAfter, c.Name+" has expired", c.Remedy)
	case OnRequest: // it was meant to
	}
}

// grace is how long a renewal that is due may take. One that waits for a maintenance window, or for the
// replacement before it, is served at the latest when a day is left, or half of a shorter time.
func (e *examination) grace(renewal time.Duration) time.Duration {
	short := min(day, renewal/2)
	if e.warns("CertificatePostponed", "MaintenanceWindowClosed", "ReplacementRunning") {
		return renewal - short
	}
	return short
}

// late is what to do about a renewal that has not happened.
func (e *examination) late() string {
	return "Check that the operator runs. Warnings say what it waits for: " + e.Look
}

func (e *examination) remedy(c Certificate) string {
	switch {
	case c.Remedy != "":
		return c.Remedy
	case c.Renewal == 0:
		return "It is renewed before its end. Until then: " + e.Look
	default:
		return fmt.Sprintf("It is renewed by itself %s before its end. Until then: %s", Period(c.Renewal), e.Look)
	}
}

// reported finds what conditions say of certificates whose end the status does not show.
func (e *examination) reported() {
	if invalid, is := e.condition("CertificatesValid", isFalse); is && !e.found(Expired) {
		e.add(Expired, invalid.Since, invalid.Message, "Do what the message says. All conditions: "+e.Look)
	}
	for _, c := range e.Conditions {
		if kind, counts := e.warned(c); counts {
			e.add(kind, c.Since, withReason(c), "Do what the message says. All conditions: "+e.Look)
		}
	}
}

// warned is the finding that a warning about a certificate amounts to. A listener whose certificate
// the status shows to end soon was found by that.
func (e *examination) warned(c Condition) (kind Kind, counts bool) {
	if !isWarning(c) {
		return "", false
	}
	switch c.Reason {
	case "CertificatePending", "CertificateHeld":
		return RenewalOverdue, true
	case "ListenerCertificateExpiring":
		return ExpiresSoon, e.Within == 0 && !e.listenerEnds()
	default:
		return "", false
	}
}

func (e *examination) listenerEnds() bool {
	return slices.ContainsFunc(e.Certificates, func(c Certificate) bool { return c.Of == Listener && c.NotAfter.Sub(e.Now) <= c.Renewal })
}

func (e *examination) found(kind Kind) bool {
	return slices.ContainsFunc(e.findings, func(f Finding) bool { return f.Kind == kind })
}

func (e *examination) restarts() {
	for _, r := range e.Restarts {
		if e.Now.Sub(r.Due) > restartGrace {
			e.add(RestartOverdue, r.Due, "node "+r.Node+" was to be restarted before what its Raft client holds expires",
				"See the condition RollingUpdate, which says what the restart waits for: "+e.Look)
		}
	}
}

// unread counts only where nothing worse explains it: a cluster that is not ready often has no record.
func (e *examination) unread() {
	if e.Unread != "" && VerdictOf(e.findings) != ClusterNotReady {
		e.add(NotRead, time.Time{}, e.Unread, "Do what the message says, and check again.")
	}
}

// Period is a time as people write it after --fail-within.
func Period(d time.Duration) string {
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return d.Truncate(time.Second).String()
	}
}
