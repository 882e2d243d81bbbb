package evidence_test

import (
	"crypto/x509"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// knows reports whether a certificate is an anchor of the domain.
func (w *world) knows(cert *x509.Certificate) bool {
	return slices.ContainsFunc(w.snapshot().Anchors, func(a trust.Anchor) bool { return a.ID == evidence.AnchorID(cert) })
}

// claim lets a role of the node say that it trusts the certificate beside the rest,
// and bring it along.
func (w *world) claim(role publication.Role, cert *x509.Certificate) {
	w.node.Report.Certificates[id(cert)] = cert.Raw
	said := w.node.Report.Roles[role]
	said.Trusts = append(slices.Clone(said.Trusts), id(cert))
	w.node.Report.Roles[role] = said
}

func TestAReportDoesNotIntroduceAnAuthority(t *testing.T) {
	t.Parallel()
	stranger := ca(t, "stranger")
	for name, lie := range map[string]func(w *world){
		"as what it trusts": func(w *world) { w.claim(contract.ReplicationListener, stranger.Certificate()) },
		"as what it has in memory": func(w *world) {
			w.claim(contract.RaftRole, stranger.Certificate())
		},
		"as what is mounted": func(w *world) {
			w.claim(contract.ReplicationListener, stranger.Certificate())
			mounted := w.node.Published
			mounted.Revision++
			mounted.Trust = map[publication.Role][]string{contract.ReplicationListener: {id(stranger.Certificate())}}
			w.node.Report.Mounted = &mounted
		},
		"as who signed what it presents": func(w *world) {
			w.claim(contract.ReplicationListener, stranger.Certificate())
			forged := leaf(t, stranger)
			w.node.Report.Certificates[id(forged)] = forged.Raw
			said := w.node.Report.Roles[contract.ReplicationListener]
			said.Presents = id(forged)
			w.node.Report.Roles[contract.ReplicationListener] = said
		},
		"that was given to somebody in the other domain": func(w *world) {
			w.claim(contract.ReplicationListener, stranger.Certificate())
			w.node.Given = map[publication.Domain][]string{contract.ClientsDomain: {id(stranger.Certificate())}}
		},
		"under a name that somebody was given": func(w *world) {
			w.node.Published.Trust[contract.ReplicationListener] = []string{"given"}
			w.node.Report.Certificates["given"] = stranger.Certificate().Raw
			said := w.node.Report.Roles[contract.ReplicationListener]
			said.Trusts = []string{"given"}
			w.node.Report.Roles[contract.ReplicationListener] = said
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			lie(w)
			if w.knows(stranger.Certificate()) {
				t.Error("the stranger is an anchor now")
			}
		})
	}
}

func TestAReportBringsTheBytesOfWhatSomebodyWasGiven(t *testing.T) {
	t.Parallel()
	gone := ca(t, "gone").Certificate()
	for name, given := range map[string]func(w *world){
		"by its publication": func(w *world) {
			w.node.Published.Trust[contract.ReplicationListener] = append(slices.Clone(w.node.Published.Trust[contract.ReplicationListener]), id(gone))
		},
		"by what its pod says": func(w *world) {
			w.node.Given = map[publication.Domain][]string{contract.ClusterDomain: {id(gone)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.claim(contract.RaftRole, gone)
			given(w)
			if !w.knows(gone) {
				t.Error("it is not known, although no Secret has to have it any more")
			}
		})
	}
}

func TestACertificateThatIsNoAuthorityIsNoAnchorWhateverNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := leaf(t, ca(t, "somebody"))
	w.node.Published.Trust[contract.ReplicationListener] = []string{id(user)}
	w.claim(contract.ReplicationListener, user)
	if w.knows(user) {
		t.Error("a leaf is an anchor")
	}
}

func TestAStrangerInTheTrustedCertsSecretIsNoAnchor(t *testing.T) {
	t.Parallel()
	stranger := ca(t, "stranger").Certificate()
	for name, c := range map[string]struct {
		change func(w *world)
		known  bool
	}{
		"nobody knows it":                        {change: func(*world) {}},
		"a silent node might have been given it": {change: func(w *world) { w.node.State = evidence.Unknown }},
		"an agent claims that it was given it":   {change: func(w *world) { w.claim(contract.ReplicationListener, stranger) }},
		"applications read it": {
			change: func(w *world) { w.domain.Authority.Published = append(w.domain.Authority.Published, stranger) }, known: true,
		},
		"a publication names it": {
			change: func(w *world) {
				w.node.Published.Trust[contract.ReplicationListener] = []string{id(stranger)}
			}, known: true,
		},
		"a pod was given it": {
			change: func(w *world) {
				w.node.Given = map[publication.Domain][]string{contract.ClusterDomain: {id(stranger)}}
			}, known: true,
		},
		"it was all that was left": {change: func(w *world) { w.domain.Authority.Certificate = stranger }, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.domain.Stored = append(w.domain.Stored, authority.Anchor{Certificate: stranger, State: trust.InUseAll})
			c.change(w)
			if got := w.knows(stranger); got != c.known {
				t.Errorf("an anchor: %t, want %t", got, c.known)
			}
		})
	}
}

func TestALeafThatAReportDoesNotBringProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.node.Report.Certificates, w.node.Report.Roles[contract.ReplicationListener].Presents)
	if got := w.evidence(t, contract.ReplicationListener).Process; got != trust.ProcessUnknown {
		t.Errorf("process %v, want unknown", got)
	}
}

func TestTheOwnCertificateOfAListenerNeedNotBeBrought(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.identify()
	loaded := w.node.Report.Roles[client]
	loaded.Presents = "of a stranger"
	w.node.Report.Roles[client] = loaded
	w.domain.Name = contract.ClientsDomain
	if got := w.evidence(t, client).Process; got != trust.ProcessRunning {
		t.Errorf("process %v, want running", got)
	}
}

func TestACertificateWithAnEndlessKeyIsNotCarried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := pkitest.Oversized(t, ca(t, "stranger"), 100_000)
	loaded := w.node.Report.Roles[contract.ReplicationListener]
	loaded.Presents = id(long)
	w.node.Report.Roles[contract.ReplicationListener], w.node.Report.Certificates[id(long)] = loaded, long.Raw
	if got := w.evidence(t, contract.ReplicationListener).Process; got != trust.ProcessUnknown {
		t.Errorf("process %v, want unknown", got)
	}
}
