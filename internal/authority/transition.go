package authority

import (
	"time"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
)

// TransitionKind names what happens to an authority. The value serves as the
// reason of an event.
type TransitionKind string

// What can happen to an authority.
const (
	Created   TransitionKind = "CaCertCreated"
	Renewed   TransitionKind = "CaCertRenewed"
	Recreated TransitionKind = "CaCertRecreated"
	// Restored: a lost certificate was taken back from what pods mount.
	Restored TransitionKind = "CaCertRestored"
	// Copied: CAs were copied from the Secret of a user.
	Copied TransitionKind = "CaCertCopied"
	// ReplacementStarted: a new authority was made and is pending.
	ReplacementStarted TransitionKind = "CaKeyReplacementStarted"
	// ReplacementAborted: the authority that was, or was to be, replaced stays or is back.
	ReplacementAborted TransitionKind = "CaKeyReplacementAborted"
	// AbortRefused: there is nothing to go back to.
	AbortRefused TransitionKind = "CaKeyReplacementAbortRefused"
	// OldRemoved: no process trusts it any more.
	OldRemoved TransitionKind = "CaCertRemoved"
)

// Transition is one thing that happens when a decision is carried out.
type Transition struct {
	Kind TransitionKind
	// Certificate is the certificate that was made or removed.
	Certificate pki.Fingerprint
	// Why is a sentence for people.
	Why string
}

// Act is something that is due or was asked for.
type Act string

// The acts that can wait.
const (
	RenewAct   Act = "Renewal"
	ReplaceAct Act = "KeyReplacement"
)

// Cause says why an act is due.
type Cause string

// The causes of an act.
const (
	ByAnnotation Cause = "Annotation"
	ByExpiry     Cause = "Expiry"
)

// Obstacle says why an act does not happen yet.
type Obstacle string

// The obstacles there are.
const (
	// WindowClosed ends when a maintenance window opens.
	WindowClosed Obstacle = "MaintenanceWindowClosed"
	// ReplacementRunning ends when the pending authority has taken over, or when
	// its replacement is aborted.
	ReplacementRunning Obstacle = "ReplacementRunning"
)

// Waiting is an act that does not happen yet.
type Waiting struct {
	Act      Act
	Cause    Cause
	Obstacle Obstacle
	// Until is when the obstacle ends; zero when that is not known.
	Until time.Time
	// Message is a sentence for people.
	Message string
}

// Problem is one thing in the resource or in a Secret that a person must change.
type Problem struct {
	// Object is the Secret or the field, for example "Secret my-cluster-ca".
	Object string
	Wrong  string
	Remedy string
	// Until is when the problem passes by itself; zero when it does not.
	Until time.Time
}

// String returns the problem as one sentence.
func (p Problem) String() string { return p.Object + ": " + p.Wrong + "; " + p.Remedy }

// InvalidResourceError is the error for input that only a person can put right. It
// carries all problems at once. Nothing is to be written while it stands.
type InvalidResourceError struct {
	Problems []Problem
}

// Error returns all problems in one message, in the order they were found.
func (e *InvalidResourceError) Error() string {
	sentences := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		sentences = append(sentences, p.String())
	}
	return excerpt.List(sentences, ". ", maxText)
}

// maxText is how many bytes of problems an error tells; the rest is counted.
const maxText = 16 << 10

func invalid(problems ...Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &InvalidResourceError{Problems: problems}
}
