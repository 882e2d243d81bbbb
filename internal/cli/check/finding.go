package check

import (
	"slices"
	"time"
)

// Kind names what is wrong. The values are in the output for programs and do not change.
type Kind string

// The kinds of findings.
const (
	// NoStatus is a cluster at which no operator looks.
	NoStatus Kind = "NoStatus"
	// NotReady is a cluster that is not Ready, or does not say so.
	NotReady Kind = "NotReady"
	// Paused is a cluster whose certificates expire because its reconciliation is paused.
	Paused Kind = "Paused"
	// RotationBlocked is a rotation that does not continue by itself.
	RotationBlocked Kind = "RotationBlocked"
	// UsersNotReady are KafkaUsers that are not Ready.
	UsersNotReady Kind = "UsersNotReady"
	// Expired is a certificate after its end.
	Expired Kind = "Expired"
	// ExpiresSoon is a certificate that ends within the time that was asked about, or that its owner has to renew.
	ExpiresSoon Kind = "ExpiresSoon"
	// RenewalOverdue is a certificate that should have been renewed.
	RenewalOverdue Kind = "RenewalOverdue"
	// RestartOverdue is a node that should have been restarted because of what it holds since its start.
	RestartOverdue Kind = "RestartOverdue"
	// NotRead is a cluster whose certificates are not known.
	NotRead Kind = "NotRead"
)

// Finding is one thing that is wrong with one cluster.
type Finding struct {
	Namespace string `json:"namespace"`
	Object    string `json:"object"`
	Kind      Kind   `json:"finding"`
	What      string `json:"what"`
	// When is the end of a certificate, or since when something is so; zero when that is not known.
	When time.Time `json:"when,omitzero"`
	// Remedy is what to do.
	Remedy string `json:"remedy"`
}

// Verdict is what all findings together mean.
type Verdict string

// The verdicts, the worst first: one that is known comes before one that is not.
const (
	ClusterNotReady    Verdict = "NotReady"
	CertificateExpires Verdict = "Expires"
	Unknown            Verdict = "Unknown"
	Passed             Verdict = "Passed"
)

// VerdictOf is the worst of what was found.
func VerdictOf(findings []Finding) Verdict {
	for _, verdict := range []Verdict{ClusterNotReady, CertificateExpires, Unknown} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind.verdict() == verdict }) {
			return verdict
		}
	}
	return Passed
}

func (k Kind) verdict() Verdict {
	switch k {
	case NoStatus, NotReady, Paused, RotationBlocked, UsersNotReady:
		return ClusterNotReady
	case NotRead:
		return Unknown
	default:
		return CertificateExpires
	}
}
