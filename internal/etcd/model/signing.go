package model

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
)

// Reasons that concern an outside PKI as a whole.
const (
	WaitingForSigner   Reason = "WaitingForSigner"
	SignerDenied       Reason = "SignerDenied"
	AnotherOperatorPKI Reason = "AnotherOperatorPKI"
)

// SignerName is the signer of CertificateSigningRequests for CAs of the operator. The operator neither approves nor signs them.
const SignerName = "keyturn.dev/etcd-ca"

// Signing is what is known of a CA of the operator that an outside PKI is to sign.
type Signing struct {
	Key pki.PrivateKey
	// Stored is the chain in its Secret, empty when there is none.
	Stored []byte
	// Given is the chain in the EtcdPKI, empty when there is none.
	Given string
	// Object is its CertificateSigningRequest, nil when there is none.
	Object *certificatesv1.CertificateSigningRequest
	// Shortest is the shortest validity of a CA that a cluster waits for; zero when none does. A cluster that waits for a
	// longer one waits alone.
	Shortest time.Duration
	Now      time.Time
}

// Signed says what becomes of a CA of the operator that an outside PKI is to sign.
type Signed struct {
	// Chain is what it signs with, the root last; nil while it cannot sign. One that IsNew is to be stored.
	Chain []*x509.Certificate
	IsNew bool
	// Problem is nil when nothing is left to be done.
	Problem *Problem
	// Remarks are about certificates of Chain that are not valid and that no path needs.
	Remarks []string
	// Publish says that a CertificateSigningRequest is to be created.
	Publish bool
	// Wake is when time alone changes that, zero when never.
	Wake time.Time
}

// DecideSigned says what becomes of the CA. The EtcdPKI comes first; a CertificateSigningRequest counts only while a
// certificate is missing, because the API server keeps it for an hour.
func (o OperatorCA) DecideSigned(s Signing) Signed {
	var d Signed
	if chain, refusal := o.CheckAnswer(s.Stored, s.Key, 0, s.Now); refusal == nil {
		d.Chain, d.Wake = chain, changes(chain, s.Now)
	}
	if s.Given != "" && !d.uses(s.Given) {
		d.take(o, s, []byte(s.Given), fmt.Sprintf("spec.certificates.%s of EtcdPKI default", o.Plane),
			fmt.Sprintf("Have status.requests.%s signed again, and put the new chain there", o.Plane))
	}
	if lacking := o.lacking(s); lacking != nil && !d.IsNew {
		o.ask(s, &d)
		if !d.IsNew {
			d.complain(lacking.Reason, lacking.Message)
		}
	}
	d.Remarks = o.remarks(d.Chain, s.Now)
	return d
}

// changes is when the next certificate of a chain becomes valid or has expired, whether a path needs it or not.
func changes(chain []*x509.Certificate, now time.Time) time.Time {
	var next time.Time
	for _, cert := range chain {
		for _, at := range []time.Time{cert.NotBefore, cert.NotAfter.Add(time.Second)} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}

// remarks name what is not valid of a chain that is used.
func (o OperatorCA) remarks(chain []*x509.Certificate, now time.Time) []string {
	var remarks []string
	for _, cert := range chain {
		if err := pki.CheckValidAt(cert, now); err != nil {
			remarks = append(remarks, fmt.Sprintf("The %s CA is used, but its chain holds a certificate that it does not need: %s. Put the chain without it into spec.certificates.%s.",
				o.Plane, excerpt.Of(err.Error(), maxCause), o.Plane))
		}
	}
	return remarks
}

// uses reports whether a chain is the one in use.
func (d *Signed) uses(text string) bool {
	chain, err := pki.ParseChain([]byte(text))
	return err == nil && d.Chain != nil && bytes.Equal(pki.EncodeBundle(chain...), pki.EncodeBundle(d.Chain...))
}

// take uses an answer, or says why not. The first problem stays.
func (d *Signed) take(o OperatorCA, s Signing, text []byte, where, remedy string) {
	chain, refusal := o.CheckAnswer(text, s.Key, s.Shortest, s.Now)
	if refusal == nil {
		d.Chain, d.IsNew, d.Wake = chain, true, changes(chain, s.Now)
		return
	}
	consequence := "New clusters get no CA; all others are served as before"
	if d.Chain != nil {
		consequence = "The previous certificate stays in use"
	}
	d.complain(refusal.Reason, fmt.Sprintf("%s is not used: %s. %s. %s.", where, refusal.Cause, consequence, remedy))
	if until := refusal.Until; !until.IsZero() && (d.Wake.IsZero() || until.Before(d.Wake)) {
		d.Wake = until
	}
}

func (d *Signed) complain(reason Reason, message string) {
	if d.Problem == nil {
		d.Problem = &Problem{reason, message}
	}
}

// ask looks at the CertificateSigningRequest of a CA that lacks a certificate.
func (o OperatorCA) ask(s Signing, d *Signed) {
	if s.Object == nil {
		d.Publish = true
		return
	}
	where, again := "CertificateSigningRequest "+s.Object.Name, "Delete it to have the request published again"
	switch {
	case !o.IsRequest(s.Object.Spec.Request, s.Key) || s.Object.Spec.SignerName != SignerName:
		d.complain(ForeignObject, fmt.Sprintf("%s is not a request of this operator. It is not used. %s, or use spec.certificates.%s of EtcdPKI default.", where, again, o.Plane))
	case isRefused(s.Object):
		d.complain(SignerDenied, fmt.Sprintf("%s was denied, or its signer has failed. New clusters get no CA; all others are served as before. %s: otherwise the API server deletes it within hours.", where, again))
	case len(s.Object.Status.Certificate) > 0:
		d.take(o, s, s.Object.Status.Certificate, "status.certificate of "+where, again+": otherwise the API server deletes it within hours")
	}
}

func isRefused(object *certificatesv1.CertificateSigningRequest) bool {
	for _, condition := range object.Status.Conditions {
		isNo := condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed
		if isNo && condition.Status != corev1.ConditionFalse {
			return true
		}
	}
	return false
}

// lacking says that a certificate is missing, or that the stored one does not do for clusters without CAs; nil when it does.
func (o OperatorCA) lacking(s Signing) *Problem {
	reason, why, consequence := WaitingForSigner, "it is not signed by the outside PKI", "New clusters get none"
	if len(s.Stored) > 0 {
		_, refusal := o.CheckAnswer(s.Stored, s.Key, s.Shortest, s.Now)
		if refusal == nil {
			return nil
		}
		if refusal.Reason != ChainIncomplete { // which is that of a self-signed one
			reason, why = refusal.Reason, "its certificate is not used: "+refusal.Cause
		}
		if reason == ExpiresTooSoon {
			consequence = "The clusters that wait for such a CA get none"
		}
	}
	return &Problem{reason, fmt.Sprintf("The operator's %s CA cannot sign new CAs: %s. %s; all others are served as before. %s.", o.Plane, why, consequence, o.remedy())}
}

func (o OperatorCA) remedy() string {
	return fmt.Sprintf("Have status.requests.%s of EtcdPKI default signed, and put the chain up to the root into spec.certificates.%s", o.Plane, o.Plane)
}

// Request is what the outside PKI is to sign. One that was published before is kept: two for one key differ.
func (o OperatorCA) Request(key pki.PrivateKey, published ...[]byte) ([]byte, error) {
	for _, request := range published {
		if o.IsRequest(request, key) {
			return request, nil
		}
	}
	return pki.NewRequest(key, o.subject(), pki.SANs{})
}

// IsRequest reports whether a text is a request for the key and the name of the CA.
func (o OperatorCA) IsRequest(text []byte, key pki.PrivateKey) bool {
	request, err := pki.ParseRequest(text)
	return err == nil && key.ID() == sha256.Sum256(request.RawSubjectPublicKeyInfo) &&
		pki.CheckRequest(request, o.subject(), pki.SANs{}) == nil
}

// DecideSignedOutside says whether a CA that an outside PKI signs can sign one that is valid for so long.
func (o OperatorCA) DecideSignedOutside(stored StoredCA, longest time.Duration, now time.Time) CAAct {
	if stored.Cert == nil {
		return o.holdForSigner("there is none")
	}
	key, problem := o.ReadKey(stored)
	if problem != nil {
		return HoldCA{*problem}
	}
	chain, refusal := o.CheckAnswer(stored.Cert[authority.CertKey], key, longest, now)
	if refusal != nil {
		return o.holdForSigner(refusal.Cause)
	}
	ca, err := pki.NewAuthority(chain[0], key)
	if err != nil {
		return HoldCA{*o.unusable(err)}
	}
	return UseCA{ca}
}

func (o OperatorCA) holdForSigner(cause string) CAAct {
	return HoldCA{Problem{WaitingForSigner, fmt.Sprintf("The operator's %s CA has no certificate of the outside PKI by which it could sign the CA of this cluster: %s. No CA of a cluster is created, renewed or replaced. %s.", o.Plane, cause, o.remedy())}}
}

// RequestIn is the request of the CA in the status of an EtcdPKI.
func (o OperatorCA) RequestIn(status keyturnv1alpha1.EtcdPKIStatus) string {
	if o.Plane == contract.PeerPlane {
		return status.Requests.Peer
	}
	return status.Requests.Client
}

// GivenIn is the chain of the CA in the spec of an EtcdPKI.
func (o OperatorCA) GivenIn(spec keyturnv1alpha1.EtcdPKISpec) string {
	if o.Plane == contract.PeerPlane {
		return spec.Certificates.Peer
	}
	return spec.Certificates.Client
}

// BelongsToAnother is the problem of an EtcdPKI that another operator has published its requests in; nil where none has.
func (o OperatorCA) BelongsToAnother(status keyturnv1alpha1.EtcdPKIStatus) *Problem {
	request, err := pki.ParseRequest([]byte(o.RequestIn(status)))
	if err != nil || pki.CheckRequest(request, o.subject(), pki.SANs{}) == nil {
		return nil
	}
	return &Problem{AnotherOperatorPKI, fmt.Sprintf("EtcdPKI default has the request of another operator, for %q. No CA and no member is created. Delete and create the EtcdPKI where that operator is gone; otherwise set the chart value etcd.pki.enabled of this operator to false.", request.Subject)}
}
