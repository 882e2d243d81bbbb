package apitest

import (
	"crypto/x509"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// The states of anchors, as the operator writes them: only along the list of the
// trust proposal, and the operator's own certificate after them. And the generations,
// which never go backwards.

// allowed are the transitions of one write. From UNTRUSTED and TRUSTED_UNUSED an
// anchor that nobody uses any more may phase out; one that was removed by hand
// comes back where it is.
func allowed() map[trust.State][]trust.State {
	return map[trust.State][]trust.State{
		trust.Absent:        {trust.Untrusted, trust.TrustedUnused, trust.PhaseOut},
		trust.Untrusted:     {trust.TrustedUnused, trust.PhaseOut},
		trust.TrustedUnused: {trust.InUseAny, trust.InUseAll, trust.PhaseOut},
		trust.InUseAny:      {trust.InUseAll, trust.PhaseOut},
		trust.InUseAll:      {trust.InUseAny, trust.PhaseOut},
		trust.PhaseOut:      {trust.InUseAny, trust.InUseAll, trust.Absent},
	}
}

// allowedIfKept are those of an anchor that its owner keeps beside the one in use: whether it is used or not, it stays
// trusted, and it comes back from PHASE_OUT as a new one.
func allowedIfKept() map[trust.State][]trust.State {
	return map[trust.State][]trust.State{
		trust.InUseAny: {trust.TrustedUnused},
		trust.InUseAll: {trust.TrustedUnused},
		trust.PhaseOut: {trust.Untrusted},
	}
}

// isKept reports whether the owner of an authority names an anchor beside the one in use: in the bundle of an issuer, or in an
// entry of the user's that has no date.
func (w *world) isKept(kind authorities.Kind, anchor string) bool {
	named := func(text []byte) bool {
		return slices.ContainsFunc(w.certs.in(text), func(c *x509.Certificate) bool { return fingerprint(c) == anchor })
	}
	for key, text := range w.stored.secrets[kind.CertSecret(clusterName)] {
		isDated := strings.HasPrefix(key, "ca-")
		if key != authority.CertKey && strings.HasSuffix(key, ".crt") && !isDated && named(text) {
			return true
		}
	}
	return w.isListed(anchor)
}

// anchorStates are the states of an authority's anchors by fingerprint.
func (s stored) anchorStates(kind authorities.Kind, certs certificates) map[string]trust.State {
	states := map[string]trust.State{}
	secret := s.secrets[kind.TrustedCertsSecret(clusterName)]
	for key, text := range secret {
		name, isCert := strings.CutSuffix(key, ".crt")
		for _, cert := range certs.in(text) {
			if isCert {
				states[fingerprint(cert)] = trust.State(strings.TrimSpace(string(secret[name+".state"])))
			}
		}
	}
	return states
}

// checkStates fails the test when the write from before to now took an anchor along
// an edge that there is not, and remembers the way of each.
func (w *world) checkStates(kind authorities.Kind, before stored) {
	w.t.Helper()
	was, is := before.anchorStates(kind, w.certs), w.stored.anchorStates(kind, w.certs)
	for _, anchor := range slices.Sorted(maps.Keys(merged(was, is))) {
		from, to := was[anchor], is[anchor]
		if from == to {
			continue
		}
		w.trace("anchor %s of the %s: %q becomes %q", w.caOf(anchor), kind, from, to)
		w.ways[w.caOf(anchor)] = append(w.ways[w.caOf(anchor)], to)
		if w.stranger != nil && anchor == fingerprint(w.stranger) {
			continue // it is nobody's, and goes at once
		}
		edges := allowed()[from]
		if w.isKept(kind, anchor) {
			edges = append(edges, allowedIfKept()[from]...)
		}
		if _, known := allowed()[from]; known && !slices.Contains(edges, to) {
			w.t.Errorf("anchor %s of the %s goes from %q to %q, after\n%s", w.caOf(anchor), kind, from, to, w.told())
		}
	}
}

func merged(a, b map[string]trust.State) map[string]trust.State {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// given are the generations and names that an authority has had.
type given struct {
	// certs and keys are what bore each generation, names the key that bore each
	// common name.
	certs, keys map[int]string
	names       map[string]pki.KeyID
}

// checkGenerations fails the test when the write of a CA Secret took a generation
// back, or gave one or the name of a CA to another than before.
func (w *world) checkGenerations(kind authorities.Kind, secret *corev1.Secret) {
	w.t.Helper()
	had := w.given[kind]
	if had == nil {
		had = &given{certs: map[int]string{}, keys: map[int]string{}, names: map[string]pki.KeyID{}}
		w.given[kind] = had
	}
	switch secret.Name {
	case kind.KeySecret(clusterName):
		if text := secret.Data[authority.KeyKey]; len(text) > 0 {
			w.give(had.keys, secret, authorities.KeyGenerationAnnotation, string(text))
		}
	case kind.CertSecret(clusterName):
		bundle := w.certs.in(secret.Data[authority.CertKey])
		if present := w.presentOf(kind, bundle); present != nil {
			w.give(had.certs, secret, authorities.CertGenerationAnnotation, fingerprint(present))
		}
		if _, begun := w.stored.secrets[kind.KeySecret(clusterName)]; !begun {
			return // it starts over if this is where it ends
		}
		for _, cert := range bundle {
			name, key := cert.Subject.CommonName, pki.KeyIDOf(cert)
			if before, known := had.names[name]; known && before != key {
				w.t.Errorf("the name %s is given to a second key, after\n%s", name, w.told())
			}
			had.names[name] = key
		}
	}
}

// give notes who bears the generation of a Secret now.
func (w *world) give(bearers map[int]string, secret *corev1.Secret, annotation, bearer string) {
	w.t.Helper()
	n, err := strconv.Atoi(secret.Annotations[annotation])
	if err != nil {
		w.t.Errorf("Secret %s bears no generation: %v", secret.Name, err)
		return
	}
	if before, known := bearers[n]; known && before != bearer {
		w.t.Errorf("Secret %s bears generation %d a second time, with something else, after\n%s", secret.Name, n, w.told())
	}
	for other := range bearers {
		if other > n {
			w.t.Errorf("the generation of Secret %s goes from %d to %d, after\n%s", secret.Name, other, n, w.told())
		}
	}
	bearers[n] = bearer
}

// presentOf is the entry of ca.crt that ca.key belongs to, the one that was made
// last if there are two; nil while the key is lost.
func (w *world) presentOf(kind authorities.Kind, bundle []*x509.Certificate) *x509.Certificate {
	key, err := pki.ParsePrivateKey(w.stored.secrets[kind.KeySecret(clusterName)][authority.KeyKey])
	if err != nil {
		return nil
	}
	var present *x509.Certificate
	for _, cert := range bundle {
		if key.Matches(cert) && (present == nil || cert.NotBefore.After(present.NotBefore)) {
			present = cert
		}
	}
	return present
}

// caOf names the CA of a fingerprint that was seen.
func (w *world) caOf(anchor string) string {
	for _, certs := range w.certs {
		for _, cert := range certs {
			if fingerprint(cert) == anchor {
				return cert.Subject.CommonName
			}
		}
	}
	return anchor
}

// checkOperator fails the test when the operator's certificate has changed and is
// not of an anchor that all use: unless there was none that served.
func (w *world) checkOperator(before stored) {
	w.t.Helper()
	leaf := func(s stored) []*x509.Certificate {
		return w.certs.in(s.secrets[clusterName+"-cluster-operator-certs"]["cluster-operator.crt"])
	}
	was, is := leaf(before), leaf(w.stored)
	if len(was) == 0 || len(is) == 0 || was[0].Equal(is[0]) || w.clock.Now().After(was[0].NotAfter) {
		return
	}
	signs := func(ca *x509.Certificate) bool {
		isAbove := w.elsewhere != nil && len(is) > 1 && pki.SignedBy(is[0], is[1]) && pki.SignedBy(is[1], ca)
		return pki.SignedBy(is[0], ca) || isAbove // an issuer's CA may be below the anchor
	}
	states := w.stored.anchorStates(authorities.Cluster, w.certs)
	for _, certs := range w.certs {
		for _, ca := range certs {
			if states[fingerprint(ca)] == trust.InUseAll && signs(ca) {
				return
			}
		}
	}
	w.t.Errorf("the operator's certificate is now of %s, whose anchor is not used by all: %v, after\n%s",
		is[0].Issuer.CommonName, w.anchors(authorities.Cluster), w.told())
}

// checkStranger fails the test when anybody is given a certificate that somebody has
// put among the anchors by hand.
func (w *world) checkStranger() {
	w.t.Helper()
	if w.stranger == nil {
		return
	}
	for name, data := range w.stored.secrets {
		if strings.Contains(string(data[agent.PublicationKey]), fingerprint(w.stranger)) {
			w.t.Errorf("Secret %s tells its node to trust a stranger, after\n%s", name, w.told())
		}
		if slices.ContainsFunc(w.certs.in(data[authority.CertKey]), w.stranger.Equal) {
			w.t.Errorf("Secret %s tells applications to trust a stranger, after\n%s", name, w.told())
		}
	}
}

// checkTwice fails the test when an entry of a Secret holds a certificate twice: what
// grows with each write does not stop.
func (w *world) checkTwice() {
	w.t.Helper()
	for name, data := range w.stored.secrets {
		for entry, text := range data {
			if !strings.HasSuffix(entry, ".crt") {
				continue
			}
			certs := w.certs.in(text)
			for i, cert := range certs {
				if slices.ContainsFunc(certs[:i], cert.Equal) {
					w.t.Errorf("%s of Secret %s holds %s by %s twice, after\n%s", entry, name, cert.Subject, cert.Issuer, w.told())
				}
			}
		}
	}
}

// The walk of every write is checked: see checkStates.
func TestAClientsCAThatGoesIsPutBackBesideTheNext(t *testing.T) {
	t.Parallel()
	w, first := ownClients(t)
	next := caNamed(t, "next clients", 1000*authority.Day)
	w.issued[string(next.Key().PEM())] = true
	dated := authority.DatedCertKey(first.Certificate())
	w.patch(&corev1.Secret{}, "my-clients-ca", map[string]any{"data": map[string]any{authority.KeyKey: next.Key().PEM()}})
	w.patch(&corev1.Secret{}, "my-clients-ca-cert", map[string]any{"data": map[string]any{
		authority.CertKey: pki.EncodeBundle(next.Certificate()), dated: pki.EncodeBundle(first.Certificate()),
	}})
	w.settle()
	w.patch(&corev1.Secret{}, "my-clients-ca-cert", map[string]any{"data": map[string]any{dated: nil, "first.crt": pki.EncodeBundle(first.Certificate())}})
	w.settle()
	want := []trust.State{trust.PhaseOut, trust.Untrusted, trust.TrustedUnused}
	if way := w.ways["corporate clients"]; len(way) < len(want) || !slices.Equal(way[len(way)-len(want):], want) {
		t.Errorf("the states of the CA that was put back are %q, and should end in %q", way, want)
	}
}
