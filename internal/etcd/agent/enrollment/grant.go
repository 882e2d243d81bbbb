package enrollment

import (
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Grant is what the mounts allow the member to trust.
type Grant struct {
	Publication publication.Publication
	// Anchors are the trusted CA certificates of each plane, sorted by fingerprint and
	// never empty. The publication names each of them, and the pin either names it or
	// another mounted one that has cross-signed it.
	Anchors map[contract.Plane][]*x509.Certificate
}

// Read decides what the member's Secret and the pod's annotations, both as they are
// mounted, allow. The error, if any, is an agent.WaitingError: an anchor that the pin
// does not accept is named in it, and the grant then holds no anchors.
func Read(secret, pod map[string][]byte) (Grant, error) {
	missing := &agent.Missing{}
	published, pin := missing.Publication(secret, pod, "")
	if !missing.Empty() {
		return Grant{}, missing.Err()
	}
	grant := Grant{Publication: published, Anchors: map[contract.Plane][]*x509.Certificate{}}
	for _, plane := range contract.Planes() {
		grant.Anchors[plane] = anchors(missing, plane, secret[plane.AnchorsKey()], published, pin)
	}
	if !missing.Empty() {
		return Grant{Publication: published}, missing.Err()
	}
	return grant, nil
}

// anchors returns exactly the anchors that the publication names for the plane.
func anchors(missing *agent.Missing, plane contract.Plane, bundle []byte, published, pin publication.Publication) []*x509.Certificate {
	mounted := map[string]*x509.Certificate{}
	certificates, err := pki.ParseBundle(bundle)
	if err != nil {
		missing.Add("a readable %s in the member's Secret (%v)", plane.AnchorsKey(), err)
		return nil
	}
	for _, certificate := range certificates {
		mounted[pki.FingerprintOf(certificate).String()] = certificate
	}
	named := slices.Compact(slices.Sorted(slices.Values(published.Trust[plane.Role()])))
	if len(named) == 0 {
		missing.Add("publication revision %d to name a CA for the %s plane", published.Revision, plane)
	}
	var found []*x509.Certificate
	for _, fingerprint := range named {
		certificate, isMounted := mounted[fingerprint]
		switch {
		case !isMounted:
			missing.Add("CA %s of the %s plane in %s of the member's Secret", fingerprint, plane, plane.AnchorsKey())
		case !accepts(certificate, certificates, pin.Trust[plane.Role()]):
			missing.Add("annotation %s of the pod to accept CA %s for the %s plane, or a CA that it accepts to cross-sign it", agent.PinAnnotation, fingerprint, plane)
		default:
			found = append(found, certificate)
		}
	}
	return found
}

// accepts reports whether the pin names a CA, or one of the mounted certificates shows that a CA which the pin accepts
// has cross-signed it.
func accepts(ca *x509.Certificate, mounted []*x509.Certificate, pinned []string) bool {
	return slices.ContainsFunc(Accepted(mounted, pinned), func(c *x509.Certificate) bool { return pki.AuthorityIDOf(c) == pki.AuthorityIDOf(ca) })
}

// Accepted are those of the CA certificates that a pin names by their fingerprints, and those that one of them has signed. Each
// signed CA may itself have signed the next one. Which of them have expired does not matter.
func Accepted(certificates []*x509.Certificate, pinned []string) []*x509.Certificate {
	var reached []*x509.Certificate
	for _, certificate := range certificates {
		if slices.Contains(pinned, pki.FingerprintOf(certificate).String()) {
			reached = append(reached, certificate)
		}
	}
	for i := 0; i < len(reached); i++ {
		for _, certificate := range certificates {
			if !slices.Contains(reached, certificate) && pki.CheckCA(certificate) == nil && pki.IssuedBy(certificate, reached[i]) {
				reached = append(reached, certificate)
			}
		}
	}
	return reached
}
