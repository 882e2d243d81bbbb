package reload

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
)

// UnprovenError says what a listener shows instead of what it was told to load.
type UnprovenError struct {
	// Problem is one sentence for people, without key material.
	Problem string
}

func (e *UnprovenError) Error() string { return e.Problem }

func unproven(format string, args ...any) error {
	return &UnprovenError{Problem: fmt.Sprintf(format, args...)}
}

// places says which certificates stand in which file, by its path.
type places map[string][]*x509.Certificate

// expectation is what a look at a listener is to show.
type expectation struct {
	listener stores.Listener
	// effective are the values that the server is to run on, by setting.
	effective map[string]string
}

// compare says why what was seen is not what was expected, if it is not. node is the chain that the agent has presented.
func (e expectation) compare(seen sight, settings map[string]local.Setting, node []*x509.Certificate, now time.Time) error {
	l := e.listener
	switch {
	case !sameCertificates(seen.Chain, l.Identity.Chain):
		return unproven("%s presents %s instead of %s", l.Name, described(seen.Chain), described(l.Identity.Chain))
	case seen.Asks && !accepts(seen.Authorities, l.Trusts):
		return unproven("%s names %d authorities that it accepts, and they are not the %d published ones",
			l.Name, len(seen.Authorities), len(l.Trusts))
	case seen.Refused != nil && pki.Verify(node, l.Trusts, now, pki.ClientAuth) == nil:
		return unproven("%s refuses the node's own leaf: %v", l.Name, seen.Refused)
	}
	if seen.Asks {
		if err := seen.trial.prove(l.Trusts); err != nil {
			return err
		}
	}
	return taken([]expectation{e}, settings)
}

// sight is a look at a listener, with the trial of what it trusts.
type sight struct {
	local.Seen

	trial *trial
}

// taken says which setting the server has not taken over yet, if there is one.
func taken(expectations []expectation, settings map[string]local.Setting) error {
	for _, e := range expectations {
		for _, name := range slices.Sorted(maps.Keys(e.effective)) {
			if settings[name].Effective != e.effective[name] {
				return unproven("the server has not taken over the setting %s", name)
			}
		}
	}
	return nil
}

// described names a chain by the fingerprints of its certificates.
func described(chain []*x509.Certificate) string {
	names := make([]string, 0, len(chain))
	for _, cert := range chain {
		names = append(names, pki.FingerprintOf(cert).String())
	}
	return strings.Join(names, " with ")
}

// conclude says what a listener has loaded, from what was seen of it. The chain
// is what it presents. Its anchors are told by their subjects, so that of several
// sets with these subjects that one counts which stands in the file the server runs
// on, then the one it had, then one it may have, then the one it should have; and
// only if handshakes do not contradict, where anchors share a subject.
func (r *Reloader) conclude(wanted stores.Listener, seen sight, settings map[string]local.Setting) State {
	after := State{Chain: seen.Chain, Dynamic: isDynamic(wanted.Name, settings)}
	current, _ := r.current(wanted.Name, settings)
	if !seen.Asks {
		// It neither names the CAs that it trusts nor rejects clients by them.
		after.Trusts = current
		return after
	}
	candidates := slices.Concat([][]*x509.Certificate{current, r.states[wanted.Name].Trusts}, r.held[wanted.Name],
		[][]*x509.Certificate{wanted.Trusts, r.files.named(seen.Authorities)})
	for _, candidate := range candidates {
		if len(candidate) > 0 && accepts(seen.Authorities, candidate) && seen.trial.prove(candidate) == nil {
			after.Trusts = candidate
			break
		}
	}
	return after
}

// named returns the certificates with one of the subjects, sorted by fingerprint.
func (p places) named(subjects [][]byte) []*x509.Certificate {
	var list []*x509.Certificate
	for _, certs := range p {
		for _, cert := range certs {
			if slices.ContainsFunc(subjects, func(subject []byte) bool { return bytes.Equal(subject, cert.RawSubject) }) {
				list = append(list, cert)
			}
		}
	}
	slices.SortFunc(list, func(a, b *x509.Certificate) int { return pki.FingerprintOf(a).Compare(pki.FingerprintOf(b)) })
	return slices.CompactFunc(list, (*x509.Certificate).Equal)
}
