package issuertest

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

func peerCertificate(t *testing.T, r *run) {
	request := r.peerRequest(t, "my-kafka-0")
	issued := r.mustIssue(t, request)
	r.checkLeaf(t, request, issued)
	if !issued.Key.Matches(issued.Chain[0]) {
		t.Error("the key does not belong to the leaf")
	}
	if issued.Key.Params() != pki.DefaultLeafKey(pki.ECDSA) {
		t.Errorf("the key is %s", issued.Key.Params())
	}
}

// checkLeaf holds what was issued against what was asked for.
func (r *run) checkLeaf(t *testing.T, request issuer.Request, issued issuer.Issued) {
	t.Helper()
	leaf := issued.Chain[0]
	if err := pki.Verify(issued.Chain, r.Anchors, request.Now, request.Usages...); err != nil {
		t.Errorf("a peer would refuse it: %v", err)
	}
	if !pki.HasSubject(leaf, request.Subject) {
		t.Errorf("subject %q, want %q", leaf.Subject, request.Subject)
	}
	if !pki.SANsOf(leaf).Equal(request.SANs) {
		t.Errorf("names %v, want %v", pki.SANsOf(leaf).Values(), request.SANs.Values())
	}
	if leaf.IsCA {
		t.Error("the leaf is a CA")
	}
	if leaf.NotBefore.After(request.Now) {
		t.Errorf("it begins at %s, after the request at %s", leaf.NotBefore, request.Now)
	}
	// Issuers with a clock of their own count from a moment later.
	if end := request.Now.Add(request.Validity + time.Minute); leaf.NotAfter.After(end) {
		t.Errorf("it ends at %s, later than asked for (%s)", leaf.NotAfter, end)
	}
}

func rsaKey(t *testing.T, r *run) {
	request := r.peerRequest(t, "rsa")
	request.Key = pki.DefaultLeafKey(pki.RSA)
	issued := r.mustIssue(t, request)
	if issued.Key.Params() != pki.DefaultLeafKey(pki.RSA) {
		t.Errorf("the key is %s", issued.Key.Params())
	}
}

func clientCertificate(t *testing.T, r *run) {
	request := r.peerRequest(t, "user")
	request.Subject = pki.Subject{CommonName: "user"}
	request.SANs = pki.SANs{}
	request.Usages = []pki.Usage{pki.ClientAuth}
	issued := r.mustIssue(t, request)
	r.checkLeaf(t, request, issued)
	if err := pki.Verify(issued.Chain, r.Anchors, request.Now, pki.ServerAuth); err == nil {
		t.Error("it would pass for a server's")
	}
}

func longValidity(t *testing.T, r *run) {
	request := r.peerRequest(t, "long")
	request.Validity = 200 * 365 * 24 * time.Hour
	leaf := r.mustIssue(t, request).Chain[0]
	for _, anchor := range r.Anchors {
		if !leaf.NotAfter.After(anchor.NotAfter) {
			return
		}
	}
	t.Errorf("it ends at %s, after every anchor", leaf.NotAfter)
}

func anchorNotPresented(t *testing.T, r *run) {
	for i, cert := range r.mustIssue(t, r.peerRequest(t, "short")).Chain {
		for _, anchor := range r.Anchors {
			if cert.Equal(anchor) && isSelfSigned(anchor) {
				t.Errorf("certificate %d of the chain is the anchor %q", i+1, anchor.Subject)
			}
		}
	}
}

func isSelfSigned(cert *x509.Certificate) bool { return pki.SignedBy(cert, cert) }

func authorityNamed(t *testing.T, r *run) {
	issued := r.mustIssue(t, r.peerRequest(t, "named"))
	for _, anchor := range r.Anchors {
		if pki.FingerprintOf(anchor) != issued.Authority {
			continue
		}
		if err := pki.Verify(issued.Chain, []*x509.Certificate{anchor}, r.Now); err != nil {
			t.Errorf("the anchor that is named does not verify the chain: %v", err)
		}
		return
	}
	t.Errorf("no anchor has the fingerprint %s", issued.Authority)
}

func askedAgain(t *testing.T, r *run) {
	request := r.peerRequest(t, "again")
	for range 2 {
		issued := r.mustIssue(t, request)
		r.checkLeaf(t, request, issued)
		if !issued.Key.Matches(issued.Chain[0]) {
			t.Error("the key does not belong to the leaf")
		}
	}
}

func twoRequests(t *testing.T, r *run) {
	first, second := r.peerRequest(t, "first"), r.peerRequest(t, "second")
	a, b := r.mustIssue(t, first), r.mustIssue(t, second)
	r.checkLeaf(t, first, a)
	r.checkLeaf(t, second, b)
	if a.Key.Equal(b.Key) {
		t.Error("two leaves share a key")
	}
}

func impossible(t *testing.T, r *run) {
	request := r.peerRequest(t, "impossible")
	request.Subject.CommonName = strings.Repeat("x", 65)
	request.SANs.DNS = []string{"not a name"}
	request.Usages = nil
	request.Renewal = request.Validity
	why := r.mustDeny(t, request)
	for _, fault := range []string{"65", "not a name", "usage", "renewal"} {
		if !strings.Contains(why, fault) {
			t.Errorf("the reason does not mention %q: %s", fault, why)
		}
	}
}

func cancelled(t *testing.T, r *run) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	outcome, err := r.Issuer.Issue(ctx, r.peerRequest(t, "cancelled"))
	if err == nil {
		t.Errorf("got %T, want an error", outcome)
	}
	if _, keepsRequests := r.outcome(t, r.peerRequest(t, "cancelled")).(issuer.Pending); keepsRequests && r.Issuer.Withdraw(ctx, nil) == nil {
		t.Error("requests are withdrawn, want an error")
	}
}

// outcome is the answer to one request, whatever it is.
func (r *run) outcome(t *testing.T, request issuer.Request) issuer.Outcome {
	t.Helper()
	outcome, err := r.Issuer.Issue(t.Context(), request)
	if err != nil {
		t.Fatalf("Issue(%q): %v", request.Name, err)
	}
	return outcome
}

func pendingSince(t *testing.T, r *run) {
	request := r.peerRequest(t, "slow")
	first, waits := r.outcome(t, request).(issuer.Pending)
	if !waits {
		t.Skip("the issuer answers at once")
	}
	request.Now = request.Now.Add(time.Minute)
	again, waits := r.outcome(t, request).(issuer.Pending)
	if !waits || !again.Since.Equal(first.Since) {
		t.Errorf("pending: %t, since %s, and before since %s", waits, again.Since, first.Since)
	}
	r.mustIssue(t, request)
}

func refused(t *testing.T, r *run) {
	if r.Refuse == nil {
		t.Skip("the issuer denies nothing that can be issued")
	}
	r.Refuse(t)
	request := r.peerRequest(t, "refused")
	first := r.mustDeny(t, request)
	if again := r.mustDeny(t, request); again != first {
		t.Errorf("it is denied because %q, and before because %q", again, first)
	}
}

func withdrawn(t *testing.T, r *run) {
	kept, names := []string{"kept"}, []string{"gone", "kept"}
	for _, name := range names {
		r.outcome(t, r.peerRequest(t, name))
	}
	for range 2 { // a reconcile that failed after it does so again
		if err := r.Issuer.Withdraw(t.Context(), append(kept, "never-requested")); err != nil {
			t.Fatal(err)
		}
	}
	if r.Open != nil {
		if open := r.Open(t); !slices.Equal(open, kept) {
			t.Errorf("the signer has the requests %q, want the kept one", open)
		}
	}
	for _, name := range names {
		r.checkLeaf(t, r.peerRequest(t, name), r.mustIssue(t, r.peerRequest(t, name)))
	}
}
