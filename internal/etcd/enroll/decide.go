package enroll

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Pod is what the operator knows of the pod with the request.
type Pod struct {
	Name string
	UID  string
	// Recorded is the UID of the pod that the operator created for the member of this name, as the status has it.
	Recorded string
	// IsEnding is true of a pod that is being deleted.
	IsEnding bool
	// HasAddress is true once the pod has an IP address. Before that, its certificate could not have it.
	HasAddress bool
}

// Holder is the one place where a key may be.
type Holder struct {
	PodUID string
	Plane  contract.Plane
}

// Ledger knows for which pod and plane a key was signed first.
type Ledger map[pki.KeyID]Holder

// Input is everything that the decision about one request depends on.
type Input struct {
	Pod   Pod
	Plane contract.Plane
	// Request and Answer are the annotations of the pod for the plane, and Other the request for the other plane; each
	// empty when there is none.
	Request, Answer, Other string
	// SANs, Usages and Validity are those of the certificate.
	SANs     pki.SANs
	Usages   []pki.Usage
	Validity time.Duration
	// CA signs; zero when it cannot.
	CA     pki.Authority
	Ledger Ledger
	Now    time.Time
}

// Cause is why a request is held or denied. It serves as the reason of an event.
type Cause string

// Causes for which a request is held: each passes without a change of the request.
const (
	UnknownPod   Cause = "UnknownMemberPod"
	PodEnding    Cause = "PodTerminating"
	NoAddress    Cause = "PodHasNoAddress"
	CANotReady   Cause = "CANotReady"
	CannotIssue  Cause = "CannotIssue"
	NothingAsked Cause = "NoRequest"
)

// Causes for which a request is denied: each needs another request.
const (
	TooLong         Cause = "RequestTooLong"
	NotBase64       Cause = "RequestNotBase64"
	PrivateKey      Cause = "RequestHasPrivateKey"
	NotARequest     Cause = "RequestUnreadable"
	WeakKey         Cause = "RequestKeyTooWeak"
	KeyOfOtherPlane Cause = "KeyUsedForBothPlanes"
	KeyOfOtherPod   Cause = "KeyOfAnotherPod"
)

// Outcome is what becomes of a request: Signed, Answered, Held or Denied.
type Outcome interface{ isOutcome() }

// Signed is a new answer.
type Signed struct {
	// Leaf is the first certificate of the chain.
	Leaf *x509.Certificate
	// Answer is what the annotation shall be.
	Answer string
	// Why says what was wrong with the answer before.
	Why string
	// RenewalAt is when the certificate is due.
	RenewalAt time.Time
}

// Answered is a request whose answer stays.
type Answered struct{ RenewalAt time.Time }

// Held is a request that is not signed now.
type Held struct {
	Cause  Cause
	Detail string
}

// Denied is a request that is never signed.
type Denied struct {
	Cause  Cause
	Detail string
}

func (Signed) isOutcome()   {}
func (Answered) isOutcome() {}
func (Held) isOutcome()     {}
func (Denied) isOutcome()   {}

// Decide says what becomes of a request.
func Decide(in Input) Outcome {
	if held := in.held(); held != nil {
		return *held
	}
	request, denied := read(in.Request)
	if denied == nil {
		denied = in.denied(request)
	}
	if denied != nil {
		return *denied
	}
	if in.CA.IsZero() {
		return Held{CANotReady, "the CA of the plane cannot sign"}
	}
	why, renewal := in.due(request)
	if why == "" {
		return Answered{renewal}
	}
	return in.sign(request, why)
}

// held says why nothing is decided about the request for now, nil when something is.
func (in Input) held() *Held {
	switch {
	case in.Request == "":
		return &Held{NothingAsked, "the pod has not asked for a certificate"}
	case in.Pod.UID == "" || in.Pod.UID != in.Pod.Recorded:
		return &Held{UnknownPod, "the pod is not the one that was created for the member"}
	case in.Pod.IsEnding:
		return &Held{PodEnding, "the pod is being deleted"}
	case !in.Pod.HasAddress:
		return &Held{NoAddress, "the pod has no IP address yet"}
	default:
		return nil
	}
}

// denied says why the key of a request is never signed.
func (in Input) denied(request *x509.CertificateRequest) *Denied {
	params, err := pki.ParamsOf(request.PublicKey)
	if err == nil {
		err = params.Validate()
	}
	if err != nil {
		return &Denied{WeakKey, err.Error()}
	}
	key := keyOf(request)
	if other, problem := read(in.Other); problem == nil && keyOf(other) == key {
		return &Denied{KeyOfOtherPlane, "the requests for both planes have one key: each needs a key of its own"}
	}
	here := Holder{in.Pod.UID, in.Plane}
	if holder, known := in.Ledger[key]; known && holder != here {
		if holder.PodUID == in.Pod.UID {
			return &Denied{KeyOfOtherPlane, fmt.Sprintf("the key was signed for the plane %s before", holder.Plane)}
		}
		return &Denied{KeyOfOtherPod, "the key was signed for another pod before"}
	}
	return nil
}

// sign makes the certificate. It is not valid before its CA, nor after it.
func (in Input) sign(request *x509.CertificateRequest, why string) Outcome {
	leaf, err := in.CA.Issue(request.PublicKey, pki.LeafSpec{
		Subject: in.subject(), SANs: in.SANs, Usages: in.Usages, Validity: in.Validity, Now: in.Now,
	})
	if err != nil {
		return Held{CannotIssue, err.Error()}
	}
	return Signed{Leaf: leaf, Answer: encode(leaf, in.CA.Presents()), Why: why, RenewalAt: renewalAt(leaf)}
}

func (in Input) subject() pki.Subject { return pki.Subject{CommonName: in.Pod.Name} }
