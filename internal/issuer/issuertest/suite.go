package issuertest

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// Feature is something an implementation may lack.
type Feature string

// The features that may be lacking.
const (
	// RSAKeys and ECDSAKeys: kinds of keys it makes.
	RSAKeys   Feature = "RSAKeys"
	ECDSAKeys Feature = "ECDSAKeys"
	// ClientOnly: leaves without server auth and without any name but the subject.
	ClientOnly Feature = "ClientOnly"
	// NamesAuthority: Issued.Authority says which anchor verifies the chain.
	NamesAuthority Feature = "NamesAuthority"
	// EndsInTime: leaves end before the certificate of their authority does.
	EndsInTime Feature = "EndsInTime"
)

// Fixture is one issuer under test.
type Fixture struct {
	Issuer issuer.Issuer
	// Anchors verify what the issuer issues.
	Anchors []*x509.Certificate
	// Now is the time of requests; for issuers with a clock of their own, about
	// the present.
	Now time.Time
	// Advance lets a pending answer come nearer, for example by acting as the
	// signer or by waiting for a change. It may be nil for issuers that answer at
	// once.
	Advance func(t *testing.T)
	// Refuse makes the signer deny what is requested from then on. It may be nil for issuers without a signer that may.
	Refuse func(t *testing.T)
	// Open names the requests that the signer still has; nil for issuers that keep none.
	Open func(t *testing.T) []string
}

// Factory makes a fresh fixture for one test.
type Factory func(t *testing.T) Fixture

// Run runs the suite as subtests of t.
func Run(t *testing.T, factory Factory, lacking ...Feature) {
	t.Helper()
	s := suite{factory: factory, lacks: map[Feature]bool{}}
	for _, feature := range lacking {
		s.lacks[feature] = true
	}
	for _, check := range []struct {
		name  string
		needs []Feature
		run   func(*testing.T, *run)
	}{
		{"a peer's certificate verifies and carries what was asked for", []Feature{ECDSAKeys}, peerCertificate},
		{"an RSA key has the size that was asked for", []Feature{RSAKeys}, rsaKey},
		{"a client's certificate serves clients only", []Feature{ECDSAKeys, ClientOnly}, clientCertificate},
		{"a leaf does not outlive its authority", []Feature{ECDSAKeys, EndsInTime}, longValidity},
		{"the anchor is not presented", []Feature{ECDSAKeys}, anchorNotPresented},
		{"the authority is named", []Feature{ECDSAKeys, NamesAuthority}, authorityNamed},
		{"asking again is answered again", []Feature{ECDSAKeys}, askedAgain},
		{"requests of two names do not mix", []Feature{ECDSAKeys}, twoRequests},
		{"impossible requests are denied with all their faults", nil, impossible},
		{"a request has one beginning until it is answered", []Feature{ECDSAKeys}, pendingSince},
		{"what the signer denies stays denied", []Feature{ECDSAKeys}, refused},
		{"requests that are not kept are withdrawn", []Feature{ECDSAKeys}, withdrawn},
		{"a cancelled context is an error and no answer", []Feature{ECDSAKeys}, cancelled},
	} {
		t.Run(check.name, func(t *testing.T) {
			t.Parallel()
			for _, feature := range check.needs {
				if s.lacks[feature] {
					t.Skipf("the issuer lacks %s", feature)
				}
			}
			check.run(t, &run{Fixture: s.factory(t)})
		})
	}
}

type suite struct {
	factory Factory
	lacks   map[Feature]bool
}

// run is one check with its own fixture.
type run struct {
	Fixture
}

// maxAnswers bounds how often a pending request is asked for.
const maxAnswers = 20

// settle asks until the answer is no longer Pending.
func (r *run) settle(t *testing.T, request issuer.Request) issuer.Outcome {
	t.Helper()
	for range maxAnswers {
		outcome, err := r.Issuer.Issue(t.Context(), request)
		if err != nil {
			t.Fatalf("Issue(%q): %v", request.Name, err)
		}
		pending, ok := outcome.(issuer.Pending)
		if !ok {
			return outcome
		}
		if pending.Since.IsZero() || pending.Why == "" {
			t.Errorf("Pending without since or why: %+v", pending)
		}
		if r.Advance == nil {
			t.Fatalf("pending (%s), and nothing can advance it", pending.Why)
		}
		r.Advance(t)
	}
	t.Fatalf("%q is still pending after %d answers", request.Name, maxAnswers)
	return nil
}

func (r *run) mustIssue(t *testing.T, request issuer.Request) issuer.Issued {
	t.Helper()
	outcome := r.settle(t, request)
	issued, ok := outcome.(issuer.Issued)
	if !ok {
		t.Fatalf("got %T %+v, want Issued", outcome, outcome)
	}
	if len(issued.Chain) == 0 {
		t.Fatal("Issued without a certificate")
	}
	return issued
}

func (r *run) mustDeny(t *testing.T, request issuer.Request) string {
	t.Helper()
	outcome := r.settle(t, request)
	denied, ok := outcome.(issuer.Denied)
	if !ok {
		t.Fatalf("got %T, want Denied", outcome)
	}
	if denied.Why == "" {
		t.Error("Denied without a reason")
	}
	return denied.Why
}

func (r *run) peerRequest(t *testing.T, name string) issuer.Request {
	t.Helper()
	sans, err := pki.NewSANs(name+".ns.svc", "10.1.2.3", "2001:db8::7")
	if err != nil {
		t.Fatal(err)
	}
	return issuer.Request{
		Name:     name,
		Subject:  pki.Subject{Organization: "example", CommonName: name},
		SANs:     sans,
		Usages:   pki.BothUsages(),
		Validity: 48 * time.Hour,
		Renewal:  12 * time.Hour,
		Key:      pki.DefaultLeafKey(pki.ECDSA),
		Now:      r.Now,
	}
}
