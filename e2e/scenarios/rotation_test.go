package scenarios

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/e2e/harness/openssl"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/rotation"
)

// witnesses are the clients of a rotation.
type witnesses struct {
	kinds []string
	// jvm is a JVM that read the PKCS#12 store when it started.
	jvm bool
	// oldOnly is OpenSSL with the authority from before and nothing else.
	oldOnly bool
	// early are authorities that ca.crt has before any node presents their leaves: who
	// trusts one of them alone is no witness.
	early []*x509.Certificate
}

// everybody is a client of every kind, the ones that never look again included.
func everybody() witnesses {
	return witnesses{kinds: harness.EveryKind(), jvm: true, oldOnly: true}
}

// attentive are those that read the whole of ca.crt, again and again: the ones
// that no kind of rotation may cut off.
func attentive() witnesses {
	return witnesses{kinds: []string{
		probe.KindBundle + "@tls", probe.KindAll + "@tls", probe.KindMTLS + "@mtls", probe.KindReissued + "@mtls",
		probe.KindSCRAM + "@scram", probe.KindPlain + "@plain",
	}}
}

// turning is the rotation of an authority, as clients and watchers see it.
type turning struct {
	*stage

	authority harness.Authority
	target    *target.Target
	watchers  harness.Watchers
	// outgoing signed before; the first of them when the scenario began.
	outgoing []*x509.Certificate
	// before is the trust when the scenario began, earlier CAs that have not left yet included.
	before harness.Trust
	// leaf is a certificate that an outsider has of the authority from before.
	leaf      openssl.Identity
	processes harness.Processes
	jvm       *harness.JVM
	began     time.Time
	ended     time.Time

	// changes are told to a scenario that wants to act on them.
	changes chan string
	unmark  func() error
	// watched have an OpenSSL of their own; only who marks changes adds to them.
	watched []*x509.Certificate
}

// turning starts the witnesses of a rotation that is about to begin.
func (s *stage) turning(a harness.Authority, w witnesses) *turning {
	s.Helper()
	signer, err := s.kafka.Signer(s.ctx, a)
	s.must(err)
	return s.turningFrom(signer, a, w)
}

// turningFrom is turning with an authority whose key is somewhere else than in the Secret of the cluster.
func (s *stage) turningFrom(signer pki.Authority, a harness.Authority, w witnesses) *turning {
	s.Helper()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	r := &turning{
		stage: s, authority: a, target: opened, watchers: harness.Watchers{Folder: s.TempDir(), Target: opened},
		changes: make(chan string, 100),
	}
	r.outgoing = []*x509.Certificate{signer.Certificate()}
	r.before, err = s.kafka.Trust(s.ctx, a)
	s.must(err)
	r.leaf, err = harness.Leaf(signer, "somebody")
	s.must(err)
	r.processes, err = s.kafka.Processes(s.ctx, opened)
	s.must(err)
	s.underLoad(w.kinds...)
	r.watched = append([]*x509.Certificate{signer.Certificate()}, w.early...)
	if w.oldOnly && a == harness.ClusterCA {
		r.watch(r.load, "openssl, the old CA only", signer.Certificate())
	}
	if w.jvm {
		s.step("a JVM client works", func() error {
			r.jvm, err = s.kafka.StartJVM(s.ctx)
			return err
		})
	}
	load := r.load
	r.unmark = load.MarkTrust(s.ctx, s.kafka, a, func(told string, now harness.Trust) { r.see(load, told, now) })
	s.Cleanup(func() { _ = r.unmark() }) // a scenario that failed has said why
	return r
}

// watch adds OpenSSL with one authority and nothing else.
func (r *turning) watch(load *harness.Load, name string, authority *x509.Certificate) {
	watch, err := r.watchers.Only(name, "tls", authority)
	if err == nil {
		err = load.Watch(watch)
	}
	if err != nil {
		r.Error(err)
	}
}

// see tells of what has changed. OpenSSL with the new authority alone works from
// the moment in which that leads ca.crt.
func (r *turning) see(load *harness.Load, told string, now harness.Trust) {
	r.journal.Say("    %s", told)
	select {
	case r.changes <- told:
	default: // nobody wants to know
	}
	lead := now.Application[0]
	if r.authority == harness.ClusterCA && !containsCertificate(r.watched, lead) {
		r.watched = append(r.watched, lead)
		r.watch(load, "openssl, "+harness.Anchor{Certificate: lead}.Name()+" only", lead)
	}
}

func containsCertificate(list []*x509.Certificate, certificate *x509.Certificate) bool {
	return slices.ContainsFunc(list, certificate.Equal)
}

// untilChange waits for a change that contains a text.
func (r *turning) untilChange(text string) error {
	for {
		select {
		case <-r.ctx.Done():
			return fmt.Errorf("waiting for %q: %w", text, r.ctx.Err())
		case told := <-r.changes:
			if strings.Contains(told, text) {
				return nil
			}
		}
	}
}

// asks for the rotation; its time counts from here.
func (r *turning) asks(what string, ask func() error) {
	r.Helper()
	r.began = time.Now()
	r.step(what, ask)
}

// until waits for the new authority to be used, the old one to be out of use, and
// for a phase in which nothing is left to be done now.
func (r *turning) until(phases ...rotation.Phase) {
	r.Helper()
	// Not a step: what changes names the phases.
	r.must(r.journal.Step("  turned", func() error {
		told, err := r.kafka.UntilTurned(r.ctx, r.authority, r.outgoing, phases...)
		if err == nil {
			r.journal.Say("    %s", told)
			r.notes = append(r.notes, told)
		}
		return err
	}))
	r.ended = time.Now()
}

// turned says whether the rotation has come to its end.
func (r *turning) turned(now harness.Trust) bool { return r.authority.Turned(now, r.outgoing) }

// untilTold waits until the condition of the authority contains all texts.
func (r *turning) untilTold(texts ...string) error {
	return r.kafka.Until(r.ctx, fmt.Sprintf("tells %q of %s", texts, r.authority), func(kafka *kafkav1.Kafka) bool {
		_, message := r.authority.Phase(kafka)
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(message, text) })
	})
}

// answers holds what all nodes say to the leaf of the authority from before.
func (r *turning) answers(want verdict.Verdict, listeners ...string) {
	r.Helper()
	now, err := r.kafka.Trust(r.ctx, harness.ClusterCA)
	r.must(err)
	known := now.Application
	if r.authority == harness.ClusterCA {
		known = append(slices.Clone(r.outgoing), known...)
	}
	for _, listener := range listeners {
		got, err := r.watchers.Accepts(r.ctx, listener, r.leaf, known...)
		r.must(err)
		if !got.All(want) {
			r.Errorf("listener %s answers a leaf of the old %s with %v, to be %s", listener, r.authority, got, want)
		}
	}
}
