package model

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Reasons about a user whose certificate comes from an issuer that holds the key of the clients CA.
const (
	CertificatePending    Reason = "CertificatePending"
	CertificateNotAdopted Reason = "CertificateNotAdopted"
	FeatureGateDisabled   Reason = "FeatureGateDisabled"
	CertificateNotRemoved Reason = "CertificateNotRemoved"
)

// issuerPause is how soon an issuer that has not answered is asked again.
const issuerPause = 30 * time.Second

// Outside is what is known of an issuer that holds the key of the clients CA.
type Outside struct {
	// Gate says whether users are moved to such an issuer.
	Gate featuregate.State
	// Fills reports whether the issuer has written the user's Secret.
	Fills bool
	// Named are the CAs of the issuer that nodes shall trust, and Anchors all that they do or shall.
	Named   []*x509.Certificate
	Anchors []authority.Anchor
	// Answer is that of the issuer, nil before it was asked.
	Answer issuer.Outcome
}

// OfIssuer reports whether the clients CA of a Kafka is that of an issuer which holds its key.
func OfIssuer(kafka *kafkav1.Kafka) bool {
	return kafka != nil && kafkamodel.CASpec(kafka.Spec.ClientsCa).Source == authority.Outside
}

// usesIssuer reports whether the certificate of a user comes from an issuer that holds the key of the clients CA. With the gate
// off, those that have one of it go on.
func (o Observed) usesIssuer() bool {
	return o.User.Spec.Authentication != nil && o.User.Spec.Authentication.Type == kafkav1.UserTLS &&
		OfIssuer(o.Kafka) && (o.Outside.Gate == featuregate.On || o.Outside.Fills)
}

// IssuerRequest is what an issuer is asked for, and whether one is: the Secret must be the user's or still to be created.
func (o Observed) IssuerRequest() (issuer.Request, bool) {
	isOwn := o.Secret == nil || IsOwned(o.Secret, o.User)
	if !o.usesIssuer() || !isOwn || len(o.User.Name) > maxCommonName {
		return issuer.Request{}, false
	}
	request := o.certificate().Request(o.Now)
	request.Name = o.SecretName
	return request, true
}

// Given is what the Secret shall hold before an issuer is asked, and whether it lacks that: cert-manager encrypts stores with the
// password. The Secret is created by its owner, so that it has one type for life.
func (o Observed) Given(stores authority.StoreGeneration) (data map[string][]byte, isLacking bool, err error) {
	stored := o.stored()
	withoutPassword := stores == authority.WithStores && len(stored[PasswordEntry]) == 0
	if o.Secret != nil && !withoutPassword {
		return nil, false, nil
	}
	data = map[string][]byte{}
	for _, entry := range []string{CAEntry, CertificateEntry, KeyEntry, StoreEntry, PasswordEntry} {
		isIssuers := entry == CAEntry && o.Outside.Fills
		if value := stored[entry]; len(value) > 0 && !isIssuers {
			data[entry] = value
		}
	}
	if withoutPassword {
		password, err := pki.NewPassword()
		if err != nil {
			return nil, false, err
		}
		data[PasswordEntry] = []byte(password)
	}
	return data, true, nil
}

// LeavesIssuer reports whether the user's Secret has entries of an issuer that the user does not use any more.
func (o Observed) LeavesIssuer() bool {
	wantsCertificate := o.User.Spec.Authentication != nil && o.User.Spec.Authentication.Type == kafkav1.UserTLS
	isKnown := !wantsCertificate || o.Kafka != nil && !OfIssuer(o.Kafka)
	return o.Outside.Fills && isKnown && IsOwned(o.Secret, o.User)
}

// NotReleased warns of a Secret that the issuer goes on filling.
func (d *Decision) NotReleased(why error, now time.Time) {
	d.warn(CertificateNotRemoved, fmt.Sprintf("cert-manager still fills the Secret of the user: %s. The credentials of the user are current. "+
		"Delete the Certificate with the name of the Secret, or give the user operator the rights to.", why))
	d.wake(now, now.Add(releasePause))
}

// NotRenewed warns of an issuer that goes on signing with a CA which is on its way out.
func (d *Decision) NotRenewed(certificate string, next time.Time) {
	d.warn(CertificatePending, fmt.Sprintf("Certificate %s was to be issued again by another CA, and the issuer has signed with the one from before. "+
		"It is requested again at %s. Have the issuer sign with the CA that caCert of spec.clientsCa names.", certificate, next.UTC().Format(time.RFC3339)))
}

// releasePause is how soon a Secret that was not released is tried again.
const releasePause = time.Minute

// Due has the user looked at again at a time.
func (d *Decision) Due(now, at time.Time) { d.wake(now, at) }

// decideOffered says whether what the issuer has issued becomes what applications read. They go on with the stored
// certificate until all nodes trust the CA of the next one.
func (o Observed) decideOffered(d *Decision) {
	if !o.isReady(d) {
		return
	}
	leaf := authority.DecideOffered(o.offeredInput(o.window(d)))
	d.Why = leaf
	d.wake(o.Now, leaf.RenewalAt)
	d.wake(o.Now, leaf.Until)
	_, end := Lifetime(o.stored())
	d.wake(o.Now, end)
	switch leaf.Act {
	case authority.HoldLeaf:
		o.holdOffered(d, leaf)
	case authority.PostponeLeaf:
		d.postponed(leaf)
	case authority.KeepLeaf, authority.RechainLeaf, authority.AdoptLeaf, authority.ReissueLeaf:
	}
	if o.Outside.Gate == featuregate.Off {
		d.warn(FeatureGateDisabled, "Feature gate CertManagerCaType is off. The certificate comes from cert-manager and is still adopted, "+
			"but its Certificate is not updated. "+turnOnGate)
	}
	d.Data = o.offeredData(leaf)
	if o.Outside.Answer != nil && leaf.Act == authority.AdoptLeaf {
		_, notAfter := Lifetime(d.Data)
		d.wake(o.Now, notAfter.Add(-o.certificate().Renewal))
	}
}

// turnOnGate says how people turn the gate on.
const turnOnGate = "Start the operators with STRIMZI_FEATURE_GATES=+CertManagerCaType, or with featureGates=[+CertManagerCaType] in their chart."

func (o Observed) offeredInput(opening authority.Window) authority.LeafInput {
	want, stored := o.certificate(), o.stored()
	answer := o.Outside.Answer
	if answer == nil {
		answer = issuer.Pending{Since: o.Now, Why: "the issuer was not asked"}
	}
	return authority.LeafInput{
		Stored: authority.StoredLeaf{Certificates: stored[CertificateEntry], Key: stored[KeyEntry]},
		Want: authority.WantedLeaf{
			Subject: want.subject(), Key: want.Key, Usages: []pki.Usage{pki.ClientAuth},
			Anchors: o.trustedByAll(), Named: o.Outside.Named, Validity: want.Validity, Renewal: want.Renewal,
		},
		Window: opening, Answer: answer, Now: o.Now,
	}
}

// trustedByAll are the CAs that all nodes trust. One that is being phased out may have been replaced before all did: it counts
// for the next certificate of a user who was given one of it.
func (o Observed) trustedByAll() []*x509.Certificate {
	present, err := pki.ParseBundle(o.stored()[CertificateEntry])
	if err != nil {
		present = nil
	}
	var trusted []*x509.Certificate
	for _, anchor := range o.Outside.Anchors {
		switch anchor.State {
		case trust.TrustedUnused, trust.InUseAny, trust.InUseAll:
			trusted = append(trusted, anchor.Certificate)
		case trust.PhaseOut:
			if verifies(anchor.Certificate, present, o.Now) {
				trusted = append(trusted, anchor.Certificate)
			}
		case trust.Absent, trust.Untrusted:
		}
	}
	return trusted
}

func verifies(ca *x509.Certificate, chain []*x509.Certificate, now time.Time) bool {
	return len(chain) > 0 && pki.Verify(chain, []*x509.Certificate{ca}, now, pki.ClientAuth) == nil
}

// holdOffered says why nothing is adopted. A user whose certificate serves is ready.
func (o Observed) holdOffered(d *Decision, leaf authority.LeafDecision) {
	remark := Remark{CertificateNotAdopted, sentence(leaf.Detail)}
	switch request := leaf.State.Request; {
	case request.Status == authority.RequestOverdue:
		remark = Remark{CertificatePending, "The certificate is not renewed: " + request.Why +
			". Check that cert-manager runs, and what the status of Certificate " + o.SecretName + " says."}
	case request.Status != authority.NoRequest:
		remark = Remark{CertificatePending, "No certificate is issued: " + request.Why}
		d.wake(o.Now, o.Now.Add(issuerPause))
	case o.CAProblem != "":
		remark = Remark{ClientsCANotReady, o.CAProblem}
	}
	_, notAfter := Lifetime(o.stored())
	if !o.Now.Before(notAfter) {
		remark.Message += " The user has no certificate."
		d.Problem = &remark
		return
	}
	d.warn(remark.Reason, remark.Message+" The certificate in "+CertificateEntry+", valid until "+notAfter.UTC().Format(time.RFC3339)+", stays in use.")
}

// sentence makes a sentence of what others say in parts of one.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// offeredData is what the Secret shall hold beside what the issuer writes there.
func (o Observed) offeredData(leaf authority.LeafDecision) map[string][]byte {
	stored, data := o.stored(), map[string][]byte{}
	if len(o.CA.Bundle) > 0 {
		data[CAEntry] = o.CA.Bundle
	}
	if leaf.Leaf == nil {
		if password := stored[PasswordEntry]; len(password) > 0 {
			data[PasswordEntry] = password
		}
		return data
	}
	maps.Copy(data, map[string][]byte{CertificateEntry: leaf.Leaf.Certificates, KeyEntry: leaf.Leaf.Key})
	return data
}

// HasCredentials tells a Secret that applications can use from one that its issuer has still to fill.
func HasCredentials(data map[string][]byte) bool {
	return len(data[CertificateEntry])+len(data[LoginPasswordEntry]) > 0
}

// Signer says which CA of an issuer has signed a certificate.
type Signer string

// The signers there are.
const (
	// NamedCA is one that the Kafka names.
	NamedCA Signer = "NamedCA"
	// OutgoingCA is one that it does not name any more, which all nodes trust beside one that it names.
	OutgoingCA Signer = "OutgoingCA"
	// EndingCA is one that the Kafka names, below which an intermediate is presented that expires before the certificate.
	EndingCA Signer = "EndingCA"
	// OtherCA is one that not all nodes trust, or the only one that they do.
	OtherCA Signer = "OtherCA"
)

// SignerOf tells who has signed what was issued. cert-manager does not notice that its issuer has another CA, and the outgoing one
// may expire before a certificate of it is renewed. The same is so of an intermediate.
func (o Observed) SignerOf(issued issuer.Issued) Signer {
	at := o.Now
	if end := pki.EarliestEnd(issued.Chain); end.Before(at) {
		at = end // an expired chain tells its signer, too
	}
	again := authority.ReissueAt(issued.Chain, o.certificate().Renewal)
	trusted := o.trustedByAll()
	isTrusted := func(ca *x509.Certificate) bool { return slices.ContainsFunc(trusted, ca.Equal) }
	signs := func(ca *x509.Certificate) bool { return verifies(ca, issued.Chain, at) }
	isNamed := slices.ContainsFunc(o.Outside.Named, signs)
	switch {
	case isNamed && !again.IsZero() && o.Now.After(again):
		return EndingCA
	case isNamed:
		return NamedCA
	case slices.ContainsFunc(trusted, signs) && slices.ContainsFunc(o.Outside.Named, isTrusted):
		return OutgoingCA
	default:
		return OtherCA
	}
}

// warnOfGate tells of a Kafka that asks for an issuer while users are not moved to one.
func (o Observed) warnOfGate(d *Decision) {
	if OfIssuer(o.Kafka) {
		d.warn(FeatureGateDisabled, fmt.Sprintf("Kafka %s has clientsCa.type cert-manager.io, but feature gate CertManagerCaType is off. "+
			"No certificate is requested. %s", o.Kafka.Name, turnOnGate))
	}
}
