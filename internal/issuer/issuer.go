package issuer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Issuer turns requests into certificates.
type Issuer interface {
	// Issue returns the state of a request, and starts it when it is new.
	// Requests are told apart by Name: asking twice for the same is one request.
	// The error is for what may pass by itself, such as a network that is down;
	// what only a person can change is Denied.
	Issue(ctx context.Context, request Request) (Outcome, error)
	// Withdraw cancels every request that was made through this issuer, except those named in keep. What was issued
	// stays valid, and a cancelled name may be requested again.
	Withdraw(ctx context.Context, keep []string) error
}

// Renewer is an issuer that keeps what it has issued, also when another CA signs behind it.
type Renewer interface {
	Issuer
	// Renew has a request issued again if what is present was issued last. What is issued next is the answer to a later
	// Issue. A name is renewed at most once in RenewalPause for one target.
	Renew(ctx context.Context, name string, renewal Renewal, now time.Time) (Renewed, error)
}

// Renewal is why a request is issued again.
type Renewal struct {
	// Present is what was issued last.
	Present *x509.Certificate
	// Target tells the CAs that are to sign from all others.
	Target string
}

// Renewed is what has become of a Renewal.
type Renewed struct {
	// Next is when the name may be renewed for the target again; zero when nothing was asked for.
	Next time.Time
	// InVain: it was asked for, and what was issued since is to be renewed, too.
	InVain bool
}

// Patience is how long a request may stay unanswered before the reason is reported.
const Patience = 30 * time.Second

// RenewalPause is how long an issuer has to sign by another CA before it is asked to issue again.
const RenewalPause = time.Hour

// Request asks for one leaf.
type Request struct {
	// Name identifies the request for its issuer; it is unique among the leaves
	// of one issuer and namespace and a valid name of a Kubernetes object.
	Name    string
	Subject pki.Subject
	SANs    pki.SANs
	Usages  []pki.Usage
	// Validity is how long the leaf shall last from Now on. Issuers may give
	// less and never more.
	Validity time.Duration
	// Renewal is how long before its end the leaf is going to be replaced; issuers
	// that renew by themselves need to know. It is less than Validity.
	Renewal time.Duration
	// Key says what the key is to be that the issuer makes, and hands over with the leaf.
	Key pki.KeyParams
	// Now is the time of the request.
	Now time.Time
}

// Outcome is the state of a request: Issued, Pending or Denied.
type Outcome interface {
	outcome()
}

// Issued is the end of a request that was granted.
type Issued struct {
	// Chain is what is to be presented: the leaf first, then intermediates or a
	// cross certificate, without the anchor.
	Chain []*x509.Certificate
	Key   pki.PrivateKey
	// Authority identifies the anchor that verifies Chain; it is zero when the
	// issuer does not say.
	Authority pki.Fingerprint
	// Next is the request for another certificate that is under way, or has failed; nil when there is none.
	Next *Pending
}

// Pending is a request that has no answer yet.
type Pending struct {
	Since time.Time
	// Why names who is waited for and what a person can do.
	Why string
}

// Denied is the end of a request that was refused. Asking again in the same way
// will be refused again.
type Denied struct {
	// Why says what is wrong and what a person can do.
	Why string
}

// Deny turns what is wrong with a request into its outcome.
func Deny(wrong error) Denied { return Denied{Why: wrong.Error()} }

func (Issued) outcome()  {}
func (Pending) outcome() {}
func (Denied) outcome()  {}

// Validate refuses requests that no issuer can grant. It reports everything that
// is wrong together.
func (r Request) Validate() error {
	err := errors.Join(r.checkNames(), r.checkUsages(), r.checkPeriod(), r.Key.Validate())
	if err != nil {
		return fmt.Errorf("request %q: %w", r.Name, err)
	}
	return nil
}

// Shortfall is how much shorter than requested a leaf lasts, from its own beginning; 0 when it is not shorter.
func (r Request) Shortfall(leaf *x509.Certificate) time.Duration {
	return max(0, r.Validity-leaf.NotAfter.Sub(leaf.NotBefore))
}

func (r Request) checkNames() error {
	var errs []error
	if r.Name == "" {
		errs = append(errs, errors.New("the request has no name"))
	}
	if n := len([]rune(r.Subject.CommonName)); n == 0 || n > 64 {
		errs = append(errs, fmt.Errorf("the common name has %d characters: 1 to 64 are possible", n))
	}
	_, err := pki.NewSANs(r.SANs.Values()...)
	return errors.Join(append(errs, err)...)
}

func (r Request) checkUsages() error {
	if len(r.Usages) == 0 {
		return errors.New("the request has no usage")
	}
	for _, usage := range r.Usages {
		if usage != pki.ServerAuth && usage != pki.ClientAuth {
			return fmt.Errorf("usage %q is not known", usage)
		}
	}
	if r.SANs.IsEmpty() && !slices.Contains(r.Usages, pki.ClientAuth) {
		return errors.New("a server certificate needs a subject alternative name")
	}
	return nil
}

func (r Request) checkPeriod() error {
	if r.Validity <= 0 || r.Renewal < 0 || r.Renewal >= r.Validity {
		return fmt.Errorf("renewal %s before the end must be less than the validity %s", r.Renewal, r.Validity)
	}
	return nil
}
