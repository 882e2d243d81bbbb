package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Day is the unit of validity and renewal in the API.
const Day = 24 * time.Hour

// Source says who makes an authority.
type Source string

// The sources of an authority.
const (
	// Generated authorities are made and renewed by Keyturn.
	Generated Source = "Generated"
	// UserProvided authorities are never written.
	UserProvided Source = "UserProvided"
	// Outside authorities sign elsewhere: an issuer offers leaves, and a user says by which CAs they are verified.
	Outside Source = "Outside"
)

// ExpirationPolicy says what happens when a generated CA is about to expire.
type ExpirationPolicy string

// The policies as they stand in the API.
const (
	RenewCertificate ExpirationPolicy = "renew-certificate"
	ReplaceKey       ExpirationPolicy = "replace-key"
)

// Spec is what a resource says about one authority.
type Spec struct {
	// Source is Generated when empty.
	Source Source
	// ValidFor is how long certificates last, and RenewBefore how long before their end they are renewed; zero or less mean 365 and 30
	// days.
	ValidFor, RenewBefore time.Duration
	// Policy is RenewCertificate when empty.
	Policy ExpirationPolicy
	// KeyAlgorithm is RSA when empty. KeySize is that of the authority's and of
	// all leaves' keys; zero means the defaults of the algorithm, of which that for
	// leaves is smaller. The present key of an authority stays as it is, and a key
	// of another size stays until its leaf is issued again.
	KeyAlgorithm pki.Algorithm
	KeySize      int
}

// Defaults of the API.
const (
	defaultValidity = 365 * Day
	defaultRenewal  = 30 * Day
)

// Validity is how long a certificate of this authority, leaf or CA, lasts.
func (s Spec) Validity() time.Duration {
	if s.ValidFor <= 0 {
		return defaultValidity
	}
	return s.ValidFor
}

// Renewal is how long before its end a certificate is renewed.
func (s Spec) Renewal() time.Duration {
	if s.RenewBefore <= 0 {
		return defaultRenewal
	}
	return s.RenewBefore
}

// CAKey returns the parameters of the authority's own next key.
func (s Spec) CAKey() pki.KeyParams { return s.key(pki.DefaultCAKey(s.KeyAlgorithm)) }

// LeafKey returns the parameters of leaf keys. Without a size they are smaller than
// the authority's, since RSA 4096 costs each handshake dearly.
func (s Spec) LeafKey() pki.KeyParams { return s.key(pki.DefaultLeafKey(s.KeyAlgorithm)) }

func (s Spec) key(params pki.KeyParams) pki.KeyParams {
	if s.KeySize != 0 {
		params.Size = s.KeySize
	}
	return params
}

// Usable is the specification without what is wrong with it: certificates end when
// it says, or are renewed as it says, and the key of the authority stays. One
// without problems is returned as it is.
func (s Spec) Usable() Spec {
	if len(s.problems("")) == 0 {
		return s
	}
	s.Policy = RenewCertificate
	if s.Renewal() >= s.Validity() {
		s.ValidFor = max(s.Validity(), shortestValidity)
		s.RenewBefore = min(s.ValidFor/2, defaultRenewal)
	}
	if s.KeyAlgorithm != pki.RSA && s.KeyAlgorithm != pki.ECDSA {
		s.KeyAlgorithm = ""
	}
	if s.CAKey().Validate() != nil {
		s.KeySize = 0
	}
	return s
}

// shortestValidity leaves a day for renewal.
const shortestValidity = 2 * Day

func (s Spec) problems(field string) []Problem {
	var problems []Problem
	if s.Renewal() >= s.Validity() {
		problems = append(problems, Problem{
			Object: field,
			Wrong:  fmt.Sprintf("renewalDays (%d) is not less than validityDays (%d), so every certificate would be renewed over and over again", s.Renewal()/Day, s.Validity()/Day),
			Remedy: "set renewalDays to less than validityDays",
		})
	}
	if s.KeyAlgorithm != "" && s.KeyAlgorithm != pki.RSA && s.KeyAlgorithm != pki.ECDSA {
		return append(problems, Problem{
			Object: field,
			Wrong:  fmt.Sprintf("keyAlgorithm %q is not known", s.KeyAlgorithm),
			Remedy: "set keyAlgorithm to RSA or ECDSA",
		})
	}
	if err := s.CAKey().Validate(); err != nil {
		problems = append(problems, Problem{Object: field, Wrong: err.Error(), Remedy: "change keySize or leave it out"})
	}
	return problems
}

// Stored is a Secret as it was observed.
type Stored struct {
	// Exists is false when there is none, or none with the labels that make it
	// ours to read.
	Exists      bool
	Data        map[string][]byte
	Annotations map[string]string
}

// generation returns the number of an annotation and whether it was there.
func (s Stored) generation(annotation string) (Generation, bool, error) {
	text, found := s.Annotations[annotation]
	if !s.Exists || !found {
		return 0, false, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || Generation(n) > MaxGeneration {
		return 0, true, fmt.Errorf("annotation %s is %q", annotation, text)
	}
	return Generation(n), true, nil
}

// Evidence is what outside of the CA Secrets depends on the authority.
type Evidence struct {
	// Dependants names what was issued by or trusts the authority: pods, leaf
	// Secrets. When there is any, a lost key is a replacement and not a beginning.
	Dependants []string
	// Unread are the Secrets that may depend on the authority and were not read: what is
	// known of all others is not all that there is.
	Unread []string
	// CertGeneration and KeyGeneration are the highest seen on any dependant;
	// they mean nothing without dependants.
	CertGeneration Generation
	KeyGeneration  Generation
	// Named are the CA certificates that nodes were told to trust, by what was
	// written for them.
	Named []pki.Fingerprint
	// Described are those that nodes without a pod are going to be told to trust again,
	// by the descriptions of their pods.
	Described []pki.Fingerprint
	// Issued are the leaves that Secrets hold, of any signer.
	Issued []*x509.Certificate
	// Reported are CA certificates that processes report. They introduce no CA: one counts if it is named,
	// or if its key is held.
	Reported []*x509.Certificate
	// Leaves are what nodes present, as far as that is known.
	Leaves []*x509.Certificate
	// Included are the CA certificates that Secrets have nodes send along with their
	// leaves. What cross-signs a user's CA, also for one that was handed over, is kept
	// nowhere else.
	Included []*x509.Certificate
}

func (e Evidence) names(cert *x509.Certificate) bool {
	return slices.Contains(e.Named, pki.FingerprintOf(cert))
}

// Window is the state of the maintenance windows at the time of the decision.
type Window struct {
	Open bool
	// Next is when a window opens next; zero when none ever does or it is not known.
	Next time.Time
}

// StoreGeneration switches PKCS#12 stores on and off.
type StoreGeneration string

// The two positions of the switch.
const (
	WithStores    StoreGeneration = "WithStores"
	WithoutStores StoreGeneration = "WithoutStores"
)

// Input is everything that a decision about one authority depends on.
type Input struct {
	Names *Names
	Spec  Spec
	// KeySecret and CertSecret are the two CA Secrets; TrustedCerts is the
	// Secret that pods mount, from which a lost certificate is recognised. When
	// that is lost, too, Evidence says what pods mounted.
	KeySecret    Stored
	CertSecret   Stored
	TrustedCerts Stored
	// Bundle is what is known of the issuer of an Outside authority; nil of any other.
	Bundle *Bundle
	// Making is what a Generated authority is made with; nil means nothing of it.
	Making *Making
	// SANs are those that the leaves of the cluster bear, all together.
	SANs     pki.SANs
	Stores   StoreGeneration
	Window   Window
	Evidence Evidence
	// Paused is true while people keep hands off the cluster. Nothing is made, and what is asked for or due
	// waits, because it would not be written.
	Paused bool
	Now    time.Time
}

// Signing says who signs the certificates of a Generated authority.
type Signing uint8

// The ways of signing.
const (
	// SelfSigned: its own key does.
	SelfSigned Signing = iota
	// BelowParent: another authority does.
	BelowParent
)

// Making is what a Generated authority is made with.
type Making struct {
	// Key is the one that was made because a decision from the same input demanded one; zero where none was.
	Key pki.PrivateKey
	// Signing says who signs the certificates, and Parent is the one that signs those below it; zero while it is not at hand.
	Signing Signing
	Parent  pki.Authority
	// PermittedDNS are the domains in which the names of leaves may be; empty means all.
	PermittedDNS []string
}

// ifOwnable is advice that names the field by which people bring a CA of their own; nothing where there is none.
func (in Input) ifOwnable(advice string) string {
	if in.Names.Source == "" {
		return ""
	}
	return fmt.Sprintf(advice, in.Names.Source)
}

func (in Input) keyObject() string  { return "Secret " + in.Names.KeySecret }
func (in Input) certObject() string { return "Secret " + in.Names.CertSecret }
