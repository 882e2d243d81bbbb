package authority

import (
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// recall replaces the Secret that pods mount when that is lost. It finds the remaining certificates that
// nodes were told to trust, and what processes report of a held key. The latter must be signed by this
// key, because any client can make a certificate about a public key.
func (o *observed) recall(in Input) {
	if len(o.trusted) > 0 {
		return
	}
	for _, cert := range slices.Concat(o.bundle, o.accounted(), in.Evidence.Reported) {
		if in.Evidence.names(cert) {
			o.remember(cert, in.Evidence.Leaves)
		}
	}
	for _, cert := range in.Evidence.Reported {
		if o.holdsKeyOf(cert) && pki.SignedBy(cert, cert) {
			o.remember(cert, in.Evidence.Leaves)
		}
	}
	sortAnchors(o.trusted)
	for _, anchor := range o.trusted {
		o.recalled = append(o.recalled, anchor.Certificate)
	}
}

// remember adds an anchor, as far in use as the leaves tell.
func (o *observed) remember(cert *x509.Certificate, leaves []*x509.Certificate) {
	isKnown := func(a Anchor) bool { return sameCertificate(a.Certificate, cert) }
	if pki.CheckCA(cert) != nil || slices.ContainsFunc(o.trusted, isKnown) {
		return
	}
	o.trusted = append(o.trusted, Anchor{Certificate: cert, State: usedBy(cert, leaves)})
}

// usedBy is the state of a trusted anchor by what is presented.
func usedBy(cert *x509.Certificate, leaves []*x509.Certificate) trust.State {
	using := 0
	for _, leaf := range leaves {
		if pki.SignedBy(leaf, cert) {
			using++
		}
	}
	switch using {
	case 0:
		return trust.TrustedUnused
	case len(leaves):
		return trust.InUseAll
	default:
		return trust.InUseAny
	}
}

// holdsKeyOf tells whether the private key of a certificate is at hand.
func (o *observed) holdsKeyOf(cert *x509.Certificate) bool {
	return o.key.Matches(cert) || o.isPending(cert) ||
		slices.ContainsFunc(o.retired, func(r retiredKey) bool { return r.key.Matches(cert) })
}

// lost names a certificate that nodes trust and that is stored nowhere any more. Another one in its place
// would cut off every peer at once.
func lost(in Input) *Problem {
	switch {
	case len(in.Evidence.Named) > 0:
	case len(in.Evidence.Unread) > 0:
		return maybeLost(in)
	default:
		return nil
	}
	return &Problem{
		Object: in.certObject(),
		Wrong:  "the CA certificate that nodes trust was lost, with its key and the Secret that pods mount, and no agent can show it" + nodesHold(in),
		Remedy: "restore the Secret with " + CertKey + " and the dated entries that it had, and the labels " + in.Names.Labels +
			": take them from a backup or from any application that trusts the CA; or find out why the agents of the pods do not answer",
	}
}

// maybeLost names what may tell of such a certificate, and was not read.
func maybeLost(in Input) *Problem {
	return &Problem{
		Object: in.certObject(),
		Wrong: "the CA certificate is gone, with its key and the Secret that pods mount, and Secrets that may be those of nodes that trust it were not read: " +
			excerpt.List(in.Evidence.Unread, ", ", excerpt.Listed),
		Remedy: "restore the CA from a backup, if the cluster had one; or do about those Secrets what condition Warning says",
	}
}
