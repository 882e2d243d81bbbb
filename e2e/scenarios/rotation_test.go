package scenarios

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/e2e/harness/openssl"
	"github.com/keyturn/keyturn/internal/kafka/rotation"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/trust"
)

// witnesses are the clients of a rotation.
type witnesses struct {
	kinds []string
	// jvm is a JVM that read the PKCS#12 store when it started.
	jvm bool
	// oldOnly is OpenSSL with the authority from before and nothing else.
	oldOnly bool
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
	// leaf is a certificate that an outsider has of the authority from before.
	leaf      openssl.Identity
	processes harness.Processes
	jvm       *harness.JVM
	began     time.Time
	ended     time.Time

	// changes are told to a scenario that wants to act on them.
	changes  chan string
	follow   context.CancelFunc
	followed chan error

	mu      sync.Mutex
	seen    harness.Trust
	watched []*x509.Certificate
}

// turning starts the witnesses of a rotation that is about to begin.
func (s *stage) turning(a harness.Authority, w witnesses) *turning {
	s.Helper()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	r := &turning{
		stage: s, authority: a, target: opened, watchers: harness.Watchers{Folder: s.TempDir(), Target: opened},
		changes: make(chan string, 100), followed: make(chan error, 1),
	}
	signer, err := s.kafka.Signer(s.ctx, a)
	s.must(err)
	r.outgoing = []*x509.Certificate{signer.Certificate()}
	r.leaf, err = harness.Leaf(signer, "somebody")
	s.must(err)
	r.processes, err = s.kafka.Processes(s.ctx, opened)
	s.must(err)
	s.underLoad(w.kinds...)
	if w.jvm {
		s.step("a JVM client works", func() error {
			r.jvm, err = s.kafka.StartJVM(s.ctx)
			return err
		})
	}
	if w.oldOnly && a == harness.ClusterCA {
		r.watch("openssl, the old CA only", signer.Certificate())
	}
	r.begin()
	return r
}

// watch adds OpenSSL with one authority and nothing else.
func (r *turning) watch(name string, authority *x509.Certificate) {
	watch, err := r.watchers.Only(name, "tls", authority)
	if err == nil {
		err = r.load.Watch(watch)
	}
	if err != nil {
		r.Error(err)
	}
}

// begin follows what the Secrets say, and marks each change in the accounts.
func (r *turning) begin() {
	load := r.load
	ctx, cancel := context.WithCancel(r.ctx)
	r.follow = cancel
	go func() {
		r.followed <- r.kafka.FollowTrust(ctx, r.authority, func(now harness.Trust) (bool, error) {
			r.see(load, now)
			return false, nil
		})
	}()
}

// see tells of what has changed. OpenSSL with the new authority alone works from
// the moment in which that leads ca.crt.
func (r *turning) see(load *harness.Load, now harness.Trust) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := len(r.seen.Application) == 0
	changes := now.Changes(r.seen)
	r.seen = now
	if first || len(changes) == 0 {
		return
	}
	told := strings.Join(changes, ", ")
	r.journal.Say("    %s", told)
	load.SetPhase(told)
	select {
	case r.changes <- told:
	default: // nobody wants to know
	}
	if lead := now.Application[0]; r.authority == harness.ClusterCA && !containsCertificate(r.outgoing[:1], lead) && !containsCertificate(r.watched, lead) {
		r.watched = append(r.watched, lead)
		r.watch("openssl, "+harness.Anchor{Certificate: lead}.Name()+" only", lead)
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
	var phase rotation.Phase
	var message string
	r.step("turned", func() error {
		err := harness.Poll(r.ctx, func() (bool, error) {
			resource, err := r.kafka.Resource(r.ctx)
			if err != nil {
				return false, err
			}
			now, err := r.kafka.Trust(r.ctx, r.authority)
			phase, message = r.authority.Phase(resource)
			return err == nil && r.turned(now) && slices.Contains(phases, phase) && harness.Settled(resource), err
		})
		if err != nil {
			return fmt.Errorf("%w; %s is in phase %q: %s", err, r.authority, phase, message)
		}
		return nil
	})
	r.ended = time.Now()
	r.journal.Say("    %s: %s", phase, message)
	r.notes = append(r.notes, fmt.Sprintf("%s: %s", phase, message))
}

// turned says whether an authority that is none of the outgoing ones leads, and is
// in use.
func (r *turning) turned(now harness.Trust) bool {
	if len(now.Application) == 0 || containsCertificate(r.outgoing, now.Application[0]) {
		return false
	}
	if r.authority == harness.ClientsCA {
		return true // who presents its leaves is for the phase to say
	}
	for _, old := range r.outgoing {
		if state := now.Anchor(old).State; state != trust.PhaseOut && state != trust.Absent {
			return false
		}
	}
	return now.Anchor(now.Application[0]).State == trust.InUseAll
}

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

// stop ends what follows the Secrets.
func (r *turning) stop() {
	r.Helper()
	r.follow()
	if err := <-r.followed; !errors.Is(err, context.Canceled) {
		r.Error(err)
	}
}
