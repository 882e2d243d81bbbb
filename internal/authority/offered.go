package authority

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// DecideOffered says what becomes of a leaf whose issuer holds the key of the CA and renews by itself: it is asked in
// every decision, and Answer is never nil. What it has issued replaces the stored leaf once every peer verifies it by an
// anchor of Want, and not before it is exactly what was asked for. Until then the stored leaf stays.
func DecideOffered(in LeafInput) LeafDecision {
	l, broken := readLeaf(in)
	d := LeafDecision{Act: KeepLeaf, Leaf: l.inForce(), State: LeafState{InForce: l.inForce()}}
	if l.leaf != nil {
		d.RenewalAt = l.serves().Add(-in.Want.Renewal)
		if again := ReissueAt(l.chain, in.Want.Renewal); !again.IsZero() {
			d.RenewalAt = again
		}
	}
	switch answer := in.Answer.(type) {
	case issuer.Issued:
		return l.offered(d, broken, answer)
	case issuer.Pending:
		d.State.Request = RequestState{RequestPending, answer.Since, answer.Why}
	case issuer.Denied:
		d.State.Request = RequestState{Status: RequestDenied, Why: answer.Why}
	}
	if d.Reason, d.Detail = l.due(broken); d.Reason != "" || d.State.Request.Status == RequestDenied {
		d.Act = HoldLeaf
	}
	return d
}

// due says why a stored leaf has to be replaced.
func (l leafCheck) due(broken *LeafDecision) (LeafReason, string) {
	if broken != nil {
		return broken.Reason, broken.Detail
	}
	if reason, detail := l.misfit(); reason != "" {
		return reason, detail
	}
	if l.in.Now.After(l.renewalAt()) {
		return LeafExpiring, "it expires at " + l.leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	if ca, again := endsFirst(l.chain, l.in.Want.Renewal); ca != nil && l.in.Now.After(again) {
		return LeafExpiring, fmt.Sprintf("the CA %q, which is presented with it, expires at %s", ca.Subject, ca.NotAfter.UTC().Format(time.RFC3339))
	}
	return "", ""
}

// ReissueAt is when a leaf is to be issued again because a CA that is presented with it expires before it does: its issuer does
// not notice that. It is zero without such a CA.
func ReissueAt(chain []*x509.Certificate, renewal time.Duration) time.Time {
	_, at := endsFirst(chain, renewal)
	return at
}

// endsFirst is the CA because of which a leaf is to be issued again first, and when. One that does not last long is not
// replaced before its last third.
func endsFirst(chain []*x509.Certificate, renewal time.Duration) (first *x509.Certificate, at time.Time) {
	for _, ca := range chain[1:] {
		due := ca.NotAfter.Add(-min(renewal, ca.NotAfter.Sub(ca.NotBefore)/3))
		if ca.NotAfter.Before(chain[0].NotAfter) && (first == nil || due.Before(at)) {
			first, at = ca, due
		}
	}
	return first, at
}

// offered is what becomes of a leaf that was issued.
func (l leafCheck) offered(d LeafDecision, broken *LeafDecision, answer issuer.Issued) LeafDecision {
	certificates := pki.EncodeBundle(answer.Chain...)
	if err := pki.CheckChainOrder(answer.Chain); err != nil {
		// A JVM loads no other order and nothing else, so that its server would not start again.
		d.State.Offered = &Leaf{StoredLeaf{Certificates: certificates, Key: answer.Key.PEM()}, answer.Chain}
		d.Act, d.Reason, d.Detail = HoldLeaf, LeafChain, "the issued certificate is not adopted, because "+err.Error()+
			": have the issuer present each certificate before its issuer, and nothing else"
		return d
	}
	if len(l.chain) > 0 && sameCertificate(l.chain[0], answer.Chain[0]) {
		return l.alreadyAdopted(d, broken, answer, certificates)
	}
	next := leafCheck{in: l.in, leaf: answer.Chain[0], chain: answer.Chain, key: answer.Key}
	d.State.Offered = &Leaf{StoredLeaf{Certificates: certificates, Key: answer.Key.PEM()}, answer.Chain}
	d.Reason, d.Detail = l.due(broken)
	if reason, detail := next.misfit(); reason != "" {
		d.Act, d.Reason, d.Detail = HoldLeaf, reason, "the issued certificate is not adopted, because "+detail
		return d
	}
	if err := pki.Verify(answer.Chain, l.in.Want.verifying(d.Reason), l.in.Now, l.in.Want.Usages...); err != nil {
		d.Act, d.Reason, d.Detail = HoldLeaf, LeafSigner, "the issued certificate is not adopted, because "+next.untrusted(err)
		return d
	}
	if d.Reason == "" {
		d.Reason, d.Detail = l.reissuedBy(next)
	}
	if broken == nil && !l.mayRenewNow() {
		d.Act, d.Until = PostponeLeaf, latest(l.in.Window, l.serves(), l.in.Want.Renewal)
		return d
	}
	d.Act = AdoptLeaf
	if broken == nil {
		d = l.held(d)
	}
	if d.Act == AdoptLeaf {
		d.Leaf = d.State.Offered
		d.Until = lateAt(answer.Next)
	}
	return d
}

// lateAt is when an unanswered request counts as late; zero without a request.
func lateAt(next *issuer.Pending) time.Time {
	if next == nil {
		return time.Time{}
	}
	return next.Since.Add(issuer.Patience)
}

// verifying are the CAs by which an issued leaf may be verified that replaces one for a reason, if there is any.
func (w WantedLeaf) verifying(due LeafReason) []*x509.Certificate {
	if due == "" {
		return w.Anchors
	}
	return slices.Concat(w.Anchors, w.Interim)
}

// serves is until when peers verify a leaf: its end, or that of the CAs by which they do, whichever comes first. Issuers may
// issue leaves that outlive their CA. It is zero where no peer verifies it any more.
func (l leafCheck) serves() time.Time {
	anchors := slices.Concat(l.in.Want.Anchors, l.in.Want.Interim)
	if len(anchors) == 0 {
		return l.leaf.NotAfter
	}
	var last time.Time
	for _, ca := range anchors {
		if pki.Verify(l.chain, []*x509.Certificate{ca}, l.in.Now, l.in.Want.Usages...) != nil {
			continue
		}
		if end := earlier(ca.NotAfter, pki.EarliestEnd(l.chain)); end.After(last) {
			last = end
		}
	}
	return last
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// untrusted says which CA is missing that verifies an issued leaf.
func (l leafCheck) untrusted(wrong error) string {
	signer := l.signer()
	for _, ca := range l.in.Want.Named {
		if pki.Verify(l.chain, []*x509.Certificate{ca}, l.in.Now, l.in.Want.Usages...) != nil {
			continue
		}
		if contains(mounted(l.in.Want.Named), ca) {
			return fmt.Sprintf("not all nodes trust the CA %q yet", ca.Subject)
		}
		return fmt.Sprintf("only the CA %q verifies it, which nodes do not trust because it has signed another CA of the bundle: put the CA %s into the bundle", ca.Subject, signer)
	}
	if pki.Verify(l.chain, l.in.Want.Interim, l.in.Now) == nil {
		return fmt.Sprintf("the CA %s is being replaced, and the existing one is not due: have the issuer sign with a CA of the bundle", signer)
	}
	if pki.Verify(l.chain, l.in.Want.Named, l.in.Now) == nil {
		return fmt.Sprintf("it is not for all of %q: ", l.in.Want.Usages) + wrong.Error()
	}
	return fmt.Sprintf("no CA of the bundle verifies it: put the CA %s into the bundle, or have the issuer sign with a CA of the bundle and reissue it", signer)
}

// signer names the CA that signed a leaf. After a change of its key the CA has the name of the one before, so that the
// name alone would be that of a CA of the bundle.
func (l leafCheck) signer() string {
	name := fmt.Sprintf("%q", l.leaf.Issuer)
	if len(l.leaf.AuthorityKeyId) > 0 {
		name += " with the key identifier " + strings.ReplaceAll(fmt.Sprintf("% X", l.leaf.AuthorityKeyId), " ", ":")
	}
	return name
}

// alreadyAdopted is what becomes of the leaf that is stored and was issued last: at most other certificates are presented
// with it.
func (l leafCheck) alreadyAdopted(d LeafDecision, broken *LeafDecision, answer issuer.Issued, certificates []byte) LeafDecision {
	switch {
	case broken != nil:
		d.Act, d.Reason, d.Detail = HoldLeaf, broken.Reason, broken.Detail
	case !slices.EqualFunc(l.chain, answer.Chain, sameCertificate):
		d.Act, d.Reason, d.Detail = RechainLeaf, LeafChain, "the chain presented with it has changed"
		d.Leaf = &Leaf{StoredLeaf{Certificates: certificates, Key: bytes.Clone(l.in.Stored.Key)}, answer.Chain}
	default:
		if reason, detail := l.misfit(); reason != "" {
			d.Act, d.Reason, d.Detail = HoldLeaf, reason, detail
			return d
		}
		if answer.Next != nil {
			return l.awaits(d, *answer.Next)
		}
		return l.overdue(d)
	}
	return d
}

// reissuedBy says why a leaf that is not due is replaced by the next one.
func (l leafCheck) reissuedBy(next leafCheck) (LeafReason, string) {
	if bytes.Equal(l.leaf.RawIssuer, next.leaf.RawIssuer) && bytes.Equal(l.leaf.AuthorityKeyId, next.leaf.AuthorityKeyId) {
		return LeafReissued, "its issuer has issued another one"
	}
	return LeafSigner, "its issuer has issued another one, by the CA " + next.signer()
}

// awaits keeps a leaf while the request for the next one is open, and reports a late answer.
func (l leafCheck) awaits(d LeafDecision, next issuer.Pending) LeafDecision {
	if late := lateAt(&next); l.in.Now.Before(late) {
		d.Until = late
		return d
	}
	d.Act, d.Reason, d.Detail = HoldLeaf, LeafReissued, next.Why
	d.State.Request = RequestState{RequestPending, next.Since, next.Why}
	return d
}

// overduePatience bounds how late the renewal of a leaf may be before a person is told.
const overduePatience = 12 * time.Hour

// overdue tells of a leaf that its issuer has not renewed although it was to, and of nothing before then. Issuers renew what
// lasts no longer than the renewal asked for when a third of its life is left.
func (l leafCheck) overdue(d LeafDecision) LeafDecision {
	left := min(l.in.Want.Renewal, l.leaf.NotAfter.Sub(l.leaf.NotBefore)/3)
	due := l.leaf.NotAfter.Add(-left)
	late := due.Add(min(overduePatience, left/4))
	if !l.in.Now.After(late) {
		d.Until = late
		return d
	}
	d.Act, d.Reason = HoldLeaf, LeafExpiring
	d.Detail = "it was due for renewal at " + due.UTC().Format(time.RFC3339) + ", and its issuer has issued no other one"
	d.State.Request = RequestState{Status: RequestOverdue, Since: due, Why: d.Detail}
	return d
}
