package authority

import (
	"crypto/x509"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Decision is what shall become of one authority.
type Decision struct {
	// Key and Cert are the two CA Secrets. Write Key first: a crash between the
	// two writes is then recognised by the next decision.
	Key  Desired
	Cert Desired
	// Authority signs leaves. It is zero when a user keeps the key of a clients
	// CA elsewhere; then nothing can be issued.
	Authority pki.Authority
	// Certificate issues leaves and is the anchor of the authority.
	Certificate *x509.Certificate
	// Retained are certificates of earlier keys that are still published, sorted
	// by fingerprint.
	Retained       []*x509.Certificate
	CertGeneration Generation
	KeyGeneration  Generation
	// Transitions happen when Key and Cert are written, in this order.
	Transitions []Transition
	// Waiting is what was asked for or is due, and does not happen yet.
	Waiting []Waiting
	// Warnings are worth a Warning condition; sorted.
	Warnings []string
	// RenewalAt is when the CA certificate is due for renewal.
	RenewalAt time.Time
}

// Anchors returns the certificate and the retained ones, the one that issues
// leaves first.
func (d Decision) Anchors() []*x509.Certificate {
	return append([]*x509.Certificate{d.Certificate}, d.Retained...)
}

// Desired is what a Secret shall hold.
type Desired struct {
	// Ours is false for Secrets that a user maintains: they are not written.
	Ours bool
	// Data is complete: any other key is to be removed.
	Data map[string][]byte
	// Annotations are those the authority maintains.
	Annotations map[string]string
	// RemoveAnnotations are served requests, sorted; they are to be removed
	// whoever set them.
	RemoveAnnotations []string
}

// TransitionKind names what happens to an authority. The value serves as the
// reason of an event.
type TransitionKind string

// What can happen to an authority.
const (
	Created     TransitionKind = "CertificateAuthorityCreated"
	Renewed     TransitionKind = "CertificateAuthorityRenewed"
	Recreated   TransitionKind = "CertificateAuthorityCertificateRecreated"
	KeyReplaced TransitionKind = "CertificateAuthorityKeyReplaced"
	OldRemoved  TransitionKind = "OldCertificateAuthorityRemoved"
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
	// ReplacementRequested ends when a key replacement is started; the request
	// stays recorded until then.
	ReplacementRequested Obstacle = "ReplacementRequested"
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
	return strings.Join(sentences, ". ")
}

func invalid(problems ...Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &InvalidResourceError{Problems: problems}
}
