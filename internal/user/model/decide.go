package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/window"
)

// Reason is why a user is not ready, or what a warning is about.
type Reason string

// The reasons.
const (
	MissingKafka         Reason = "MissingKafka"
	ClientsCANotReady    Reason = "ClientsCANotReady"
	ForeignObject        Reason = "ForeignObject"
	CertificateHeld      Reason = "CertificateHeld"
	CertificatePostponed Reason = "CertificatePostponed"
	InvalidWindows       Reason = "MaintenanceTimeWindows"
	InvalidPassword      Reason = "InvalidPassword"
	MissingPassword      Reason = "MissingPassword"
	MissingListener      Reason = "MissingListener"
	NameTooLong          Reason = "NameTooLong"
	InvalidSecret        Reason = "InvalidSecret"
	Forbidden            Reason = "Forbidden"
	ClockDiffers         Reason = "ClockDiffers"
	ClusterLabelChanged  Reason = "ClusterLabelChanged"
	ReconciliationPaused Reason = "ReconciliationPaused"
	// EndsWithCA: a certificate is due, and another one would last no longer.
	EndsWithCA Reason = "EndsWithCA"
	// WatchDenied: changes of what the user depends on are not noticed.
	WatchDenied Reason = "WatchDenied"
)

// Reasons that stand in the way in Kafka.
const (
	AuthorizationDisabled Reason = "AuthorizationDisabled"
	KafkaUnreachable      Reason = "KafkaUnreachable"
	NotAuthorized         Reason = "NotAuthorized"
	RejectedByKafka       Reason = "RejectedByKafka"
)

// Forced is why a certificate is issued that a person asks for.
const Forced authority.LeafReason = "ForceRenew"

// Remark tells a person what is wrong and what to do.
type Remark struct {
	Reason  Reason
	Message string
}

// Observed is everything that a decision about a user depends on.
type Observed struct {
	User *kafkav1.KafkaUser
	// Kafka is the cluster of the user, nil when it does not exist.
	Kafka *kafkav1.Kafka
	// CA is the clients CA; CAProblem says why there is none that signs, and is empty when there is one.
	CA        CA
	CAProblem string
	// Outside is the issuer that signs with the clients CA, where its key is not in a Secret of the cluster.
	Outside Outside
	// SecretName is the name of the user's Secret, and Secret what is stored under it, nil when there is nothing.
	SecretName string
	Secret     *corev1.Secret
	// Former is the user's Secret under an earlier name, which has the credentials in use until they are under SecretName.
	Former *corev1.Secret
	// PasswordSecret is the Secret that the password comes from, nil when there is none.
	PasswordSecret *corev1.Secret
	// IsTurn: a certificate that serves and is to be reissued need not wait any longer.
	IsTurn bool
	// Unnoticed are the warnings about watches that are denied.
	Unnoticed []Remark
	Now       time.Time
}

// Decision is what becomes of a user.
type Decision struct {
	// Problem is why the user is not ready, nil when it is.
	Problem  *Remark
	Warnings []Remark
	// Username is what Kafka knows the user by.
	Username string
	// Request asks for a new certificate because of Why; nil when none is issued now.
	Request *issuer.Request
	Why     authority.LeafDecision
	// Data is what the Secret shall hold when nothing is issued; nil leaves the Secret alone.
	Data map[string][]byte
	// Password is the one that Kafka shall accept, empty when it is not known or the user has none.
	Password string
	// IsRefused: nothing of the user is changed, in Kafka neither.
	IsRefused bool
	// Waits: the certificate is to be reissued when it is the user's turn.
	Waits bool
	// AwaitsTrust: the certificate is to be reissued when all nodes trust the CA that signs.
	AwaitsTrust bool
	// Remove takes away the Secret of a user that has no credentials any more.
	Remove bool
	// Wake is when the next decision is due although nothing changes; zero when never.
	Wake time.Time
}

// maxCommonName is how long the common name of a certificate can be.
const maxCommonName = 64

// Decide says what becomes of a user.
func Decide(o Observed) Decision {
	d := Decision{Username: Username(o.User), Warnings: slices.Clone(o.Unnoticed)}
	if hasCertificate(o.User) && len(o.User.Name) > maxCommonName {
		d.IsRefused = true
		d.Problem = &Remark{NameTooLong, fmt.Sprintf("The name has %d characters, and the common name of a certificate has at most %d. "+
			"Nothing of this user is changed. Create a KafkaUser with a shorter name.", len(o.User.Name), maxCommonName)}
		return d
	}
	if len(o.SecretName) > validation.DNS1123SubdomainMaxLength {
		d.IsRefused = true
		d.Problem = &Remark{NameTooLong, fmt.Sprintf("The name of the user's Secret has %d characters with its prefix, and at most %d are possible. "+
			"Nothing of this user is changed. Create a KafkaUser with a shorter name.", len(o.SecretName), validation.DNS1123SubdomainMaxLength)}
		return d
	}
	if isOfCluster(o.User.Labels[kafkamodel.ClusterLabel], o.SecretName) {
		d.IsRefused = true
		d.Problem = &Remark{ForeignObject, fmt.Sprintf("Secret %s is the cluster's own, not a user's. Nothing of this user is changed. "+
			"Create a KafkaUser with another name.", o.SecretName)}
		return d
	}
	switch authentication := o.User.Spec.Authentication; {
	case authentication == nil || authentication.Type == kafkav1.UserTLSExternal:
		d.Remove = o.Secret != nil && IsOwned(o.Secret, o.User)
		d.Problem = o.missingKafka("What Kafka holds for the user is not changed. ")
	case o.usesIssuer():
		o.decideOffered(&d)
	case authentication.Type == kafkav1.UserTLS:
		o.warnOfGate(&d)
		o.decideCertificate(&d)
	case authentication.Type == kafkav1.UserSCRAM:
		o.decidePassword(&d)
	}
	o.checkListeners(&d)
	o.warnOfIdle(&d)
	return d
}

// isOfCluster reports whether a Secret of this name is one that the cluster makes for itself, whether it exists or not.
func isOfCluster(cluster, secret string) bool {
	names := kafkamodel.Names{Cluster: cluster}
	return secret == names.OperatorSecret() || secret == names.UserOperatorSecret() ||
		slices.ContainsFunc([]authorities.Kind{authorities.Cluster, authorities.Clients}, func(ca authorities.Kind) bool {
			return slices.Contains([]string{ca.KeySecret(cluster), ca.CertSecret(cluster), ca.TrustedCertsSecret(cluster)}, secret)
		})
}

// missingKafka is the problem of a user that needs a Kafka and has none.
func (o Observed) missingKafka(consequence string) *Remark {
	if o.Kafka != nil || o.User.Spec.Authentication == nil && !IsInKafka(o.User) {
		return nil
	}
	return &Remark{MissingKafka, fmt.Sprintf("Kafka %s does not exist in namespace %s. %s"+
		"Create it, or correct the label %s.", o.User.Labels[kafkamodel.ClusterLabel], o.User.Namespace, consequence, kafkamodel.ClusterLabel)}
}

// isReady reports whether the Secret can be written: it is the user's, and the user has a Kafka.
func (o Observed) isReady(d *Decision) bool {
	if o.Secret != nil && !IsOwned(o.Secret, o.User) {
		d.Problem = &Remark{ForeignObject, fmt.Sprintf("Secret %s is not owned by this user. It is not changed, and the user has no credentials. %s",
			o.Secret.Name, o.makesRoom())}
	} else {
		d.Problem = o.missingKafka("The user gets no credentials. ")
	}
	return d.Problem == nil
}

// makesRoom is what to do about a Secret that stands where that of the user shall be.
func (o Observed) makesRoom() string {
	if reference := PasswordReference(o.User); reference != nil && reference.Name == o.SecretName {
		return fmt.Sprintf("Create another Secret with the password, name it in spec.authentication.password, and then delete Secret %s: "+
			"under this name the user operator writes what applications read.", o.SecretName)
	}
	return "Delete the Secret if its data is not needed, or rename the KafkaUser."
}

func (o Observed) decideCertificate(d *Decision) {
	if !o.isReady(d) {
		return
	}
	stored := o.stored()
	opening := o.window(d)
	leaf := o.decideLeaf(opening)
	d.Why = leaf
	d.wake(o.Now, leaf.RenewalAt)
	d.wake(o.Now, leaf.Until)
	_, end := Lifetime(stored)
	d.wake(o.Now, end)
	switch leaf.Act {
	case authority.ReissueLeaf:
		if d.AwaitsTrust = o.awaitsTrust(); d.AwaitsTrust {
			return
		}
		if d.Waits = o.takesTurn(leaf) && !o.IsTurn; d.Waits {
			return
		}
		request := o.certificate().Request(o.Now)
		d.Request = &request
		return
	case authority.HoldLeaf:
		d.Problem = &Remark{CertificateHeld, o.held(leaf)}
		return
	case authority.PostponeLeaf:
		d.postponed(leaf)
	case authority.KeepLeaf, authority.RechainLeaf, authority.AdoptLeaf:
		o.warnOfEnd(d)
	}
	if o.CAProblem != "" {
		d.warn(ClientsCANotReady, o.CAProblem)
		return
	}
	d.Data = o.CA.Kept(stored)
}

// decideLeaf says what becomes of the certificate, also for what it does not show itself.
func (o Observed) decideLeaf(opening authority.Window) authority.LeafDecision {
	leaf := DecideCertificate(CertificateInput{Want: o.certificate(), CA: o.CA, Stored: o.stored(), Window: opening, Now: o.Now})
	if o.outlives(leaf) {
		leaf = authority.LeafDecision{
			Act: authority.ReissueLeaf, Reason: Shortened, Detail: "it is valid for longer than validityDays, which was changed",
		}
	}
	if IsForced(o.Secret) && leaf.Act != authority.ReissueLeaf && !o.CA.Signer.IsZero() {
		leaf = authority.LeafDecision{
			Act: authority.ReissueLeaf, Reason: Forced, Detail: "annotation " + authorities.ForceRenewAnnotation + " of its Secret asks for it",
		}
	}
	return leaf
}

// IsForced reports whether a person asks for another certificate, now and not in a maintenance window.
func IsForced(secret *corev1.Secret) bool {
	return secret != nil && strings.EqualFold(secret.Annotations[authorities.ForceRenewAnnotation], "true")
}

func (d *Decision) postponed(leaf authority.LeafDecision) {
	d.warn(CertificatePostponed, "The certificate is due for renewal ("+leaf.Detail+"). It stays in use and is issued again in the next maintenance window.")
}

// held says why a certificate cannot be issued.
func (o Observed) held(leaf authority.LeafDecision) string {
	if o.CAProblem != "" {
		return o.CAProblem
	}
	return fmt.Sprintf("The certificate cannot be issued: %s. Restore %s in Secret %s.",
		leaf.Detail, authority.KeyKey, authorities.Clients.KeySecret(o.Kafka.Name))
}

// stored are the credentials in use. They move with the Secret when it gets another name.
func (o Observed) stored() map[string][]byte {
	switch {
	case o.Former != nil:
		return o.Former.Data
	case o.Secret != nil:
		return o.Secret.Data
	default:
		return nil
	}
}

// certificate is what the user's certificate shall be: as the user says, or else as the clients CA's are.
func (o Observed) certificate() Certificate {
	spec := kafkamodel.CASpec(o.Kafka.Spec.ClientsCa).Usable()
	want := Certificate{User: o.User.Name, Key: spec.LeafKey(), Validity: spec.Validity(), Renewal: spec.Renewal()}
	own := o.User.Spec.Authentication
	if own.ValidityDays != nil && own.RenewalDays != nil {
		want.Validity = time.Duration(*own.ValidityDays) * authority.Day
		want.Renewal = time.Duration(*own.RenewalDays) * authority.Day
	}
	return want
}

func (o Observed) window(d *Decision) authority.Window {
	windows, err := window.Parse(o.Kafka.Spec.MaintenanceTimeWindows)
	if err != nil {
		d.warn(InvalidWindows, "spec.maintenanceTimeWindows of the Kafka cannot be read: "+err.Error()+". It counts as closed. Correct it.")
	}
	moment := windows.At(o.Now)
	next, _ := moment.Opens()
	return authority.Window{Open: moment.Open(), Next: next}
}

// Deny takes back the request that an issuer refused, for a reason that a person has to remove.
func (d *Decision) Deny(why string) {
	d.Request = nil
	d.Problem = &Remark{CertificateHeld, "The certificate cannot be issued: " + why}
}

// AddStore adds a PKCS#12 store to what the Secret shall hold. With a password that no store can have there is none.
func (d *Decision) AddStore(data map[string][]byte, o Observed) map[string][]byte {
	complete, err := WithStore(data, o.stored())
	if err != nil {
		d.warn(InvalidPassword, fmt.Sprintf("There is no PKCS#12 store: %s. The other entries are current. "+
			"Remove %s from Secret %s: a new one is generated.", err, PasswordEntry, o.SecretName))
		return data
	}
	return complete
}

func (d *Decision) warn(reason Reason, message string) {
	d.Warnings = append(d.Warnings, Remark{reason, message})
}

// wake keeps the earliest time that is still to come.
func (d *Decision) wake(now, at time.Time) {
	if at.After(now) && (d.Wake.IsZero() || at.Before(d.Wake)) {
		d.Wake = at
	}
}
