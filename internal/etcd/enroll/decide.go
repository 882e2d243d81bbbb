package enroll

import (
	"crypto/x509"
	"fmt"
	"slices"
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

// Input is everything that the decision about one request depends on.
type Input struct {
	Pod   Pod
	Plane contract.Plane
	// Request and Answer are the annotations of the pod for the plane, and Other the request for the other plane; each
	// empty when there is none.
	Request, Answer, Other string
	// IsShared is true of one request for both planes, and MayShare where a cluster accepts it.
	IsShared, MayShare bool
	// IsAttested is true while none but the pod itself can have written the request.
	IsAttested bool
	// SANs, Usages and Validity are those of the certificate.
	SANs     pki.SANs
	Usages   []pki.Usage
	Validity time.Duration
	// CA signs; zero when it cannot.
	CA     pki.Authority
	Ledger Ledger
	// Namespace is that of an application or a backup, and empty for a member. Elsewhere are requests that others have sent.
	Namespace string
	Elsewhere []string
	Now       time.Time
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
	OtherPlane   Cause = "OtherPlaneNotSigned"
	RateLimited  Cause = "TooManyCertificates"
	LedgerFull   Cause = "LedgerFull"
	NotAttested  Cause = "AttestationNotEnforced"
)

// Causes for which a request is denied: each needs another request.
const (
	TooLong         Cause = "RequestTooLong"
	NotBase64       Cause = "RequestNotBase64"
	PrivateKey      Cause = "RequestHasPrivateKey"
	KeyExposed      Cause = "PrivateKeyExposed"
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
	// Asked is the common name of the request where that is another one than the certificate has; else empty.
	Asked string
}

// Answered is a request whose answer stays.
type Answered struct{ RenewalAt time.Time }

// Held is a request that is not signed now.
type Held struct {
	Cause  Cause
	Detail string
	// Until is when it is looked at again although nothing has changed; zero when never.
	Until time.Time
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
		return Held{Cause: CANotReady, Detail: "the CA of the plane cannot sign"}
	}
	why, renewal := in.due(request)
	if why == "" {
		return Answered{renewal}
	}
	if !in.IsAttested { // only what the pod has already is renewed
		names, isKnown := in.attestedNames(request)
		in.SANs = names
		if why, _ = in.due(request); !isKnown || why == "" {
			return Held{Cause: NotAttested, Detail: "another process may have written it"}
		}
	}
	if held := in.limited(keyOf(request)); held != nil {
		return *held
	}
	return in.sign(request, why)
}

// held says why nothing is decided about the request for now, nil when something is.
func (in Input) held() *Held {
	switch {
	case in.Request == "":
		return &Held{Cause: NothingAsked, Detail: "the pod has not asked for a certificate"}
	case in.Pod.UID == "" || in.Pod.UID != in.Pod.Recorded:
		return &Held{Cause: UnknownPod, Detail: "the pod is not the one that was created for the member"}
	case in.Pod.IsEnding:
		return &Held{Cause: PodEnding, Detail: "the pod is being deleted"}
	case !in.Pod.HasAddress:
		return &Held{Cause: NoAddress, Detail: "the pod has no IP address yet"}
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
	if in.Ledger.IsExposed(keyOf(request)) {
		return &Denied{KeyExposed, "its private key was in an annotation or in spec.request, which every process with read access has seen: use a new key"}
	}
	if in.IsShared && !in.MayShare {
		return &Denied{KeyOfOtherPlane, "one request asks for both planes: send two, each for a key of its own, or set spec.TLS.dynamic.attestation to Annotation"}
	}
	return in.bound(keyOf(request))
}

// bound says where else a key belongs: each is of one pod and, unless a request is for both, of one plane.
func (in Input) bound(key pki.KeyID) *Denied {
	if other, problem := read(in.Other); !in.IsShared && problem == nil && keyOf(other) == key {
		return &Denied{KeyOfOtherPlane, "the requests for both planes have one key: each needs a key of its own"}
	}
	if in.isElsewhere(key) {
		return &Denied{KeyOfOtherPod, "a member or another application asks with the key"}
	}
	for _, issued := range in.Ledger {
		switch {
		case issued.SPKI != key.String():
		case issued.PodUID != in.Pod.UID:
			return &Denied{KeyOfOtherPod, "the key was signed for another pod before"}
		case issued.Plane != in.Plane && !in.IsShared:
			return &Denied{KeyOfOtherPlane, fmt.Sprintf("the key was signed for the plane %s before", issued.Plane)}
		}
	}
	return nil
}

// isElsewhere reports whether others have asked with a key before it was signed here.
func (in Input) isElsewhere(key pki.KeyID) bool {
	return !in.Ledger.has(key, Holder{in.Pod.UID, in.Plane}) && slices.ContainsFunc(in.Elsewhere, func(request string) bool {
		other, problem := read(request)
		return problem == nil && keyOf(other) == key
	})
}

// limited says why no more certificates are signed for now. No member waits for room in the ledger, and neither does a renewal for the same key.
func (in Input) limited(key pki.KeyID) *Held {
	if until := in.Ledger.limitedUntil(Holder{in.Pod.UID, in.Plane}, in.Now); !until.IsZero() {
		return &Held{RateLimited, fmt.Sprintf("the pod has got %d certificates for it within an hour, and gets the next one at %s", MaxPerHour, until.UTC().Format(time.RFC3339)), until}
	}
	if in.Namespace == "" || in.Ledger.earliest(key) != "" {
		return nil
	}
	if why := in.Ledger.crowded(in.Namespace, in.Now); why != "" {
		return &Held{Cause: LedgerFull, Detail: why, Until: in.Now.Add(rateWindow)}
	}
	return nil
}

// sign makes the certificate. It is not valid before its CA, nor after it.
func (in Input) sign(request *x509.CertificateRequest, why string) Outcome {
	leaf, err := in.CA.Issue(request.PublicKey, pki.LeafSpec{
		Subject: in.subject(), SANs: in.SANs, Usages: in.Usages, Validity: in.Validity, Now: in.Now,
	})
	if err != nil {
		return Held{Cause: CannotIssue, Detail: err.Error()}
	}
	signed := Signed{Leaf: leaf, Answer: encode(leaf, in.CA.Presents()), Why: why, RenewalAt: RenewalAt(leaf)}
	if asked := request.Subject.CommonName; asked != leaf.Subject.CommonName {
		signed.Asked = asked
	}
	return signed
}

func (in Input) subject() pki.Subject { return Subject(in.Pod.Name) }

// Subject is that of the certificates of a pod.
func Subject(pod string) pki.Subject { return pki.Subject{CommonName: pod} }
