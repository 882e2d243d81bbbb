package scenarios

import (
	"strings"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/e2e/harness/openssl"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// What is promised of rotations.
const (
	turnedWithin    = time.Minute
	restartedWithin = 8 * time.Minute
	reloadAsked     = "keyturn.dev/reload"
)

// clusterKeyReplaced is the whole promise: no node restarts, nobody notices, not
// even who pinned the old CA; afterwards the old CA opens no door.
func clusterKeyReplaced(s *stage) {
	s.onShared()
	r := s.turning(harness.ClusterCA, everybody())
	r.answers(verdict.Accepted, "replication")
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	r.until(authorities.RaftRestartsPending)
	r.compare()
	r.within(turnedWithin)
	r.notRestarted()

	r.answers(verdict.Refused, "replication", "mtls")
	r.answers(verdict.Accepted, "controlplane")
	remainderIsNamed(r)
	s.step("the remainder gone after a restart of each node", func() error {
		if err := s.kafka.Roll(s.ctx); err != nil {
			return err
		}
		return untilTrusted(r)
	})
	r.answers(verdict.Refused, "replication", "mtls", "controlplane")
	r.onlyNew()
}

// remainderIsNamed: the condition says who has to be restarted, and until when.
func remainderIsNamed(r *turning) {
	r.Helper()
	kafka, err := r.kafka.Resource(r.ctx)
	r.must(err)
	_, message := r.authority.Phase(kafka)
	for _, text := range append(nodes("dual-role", 0, 1, 2), "or before ") {
		if !strings.Contains(message, text) {
			r.Errorf("the condition of %s does not say %q: %s", r.authority, text, message)
		}
	}
}

// untilTrusted waits until one authority is trusted and used, and nothing else.
func untilTrusted(r *turning) error {
	return harness.Poll(r.ctx, func() (bool, error) {
		kafka, err := r.kafka.Resource(r.ctx)
		if err != nil {
			return false, err
		}
		phase, _ := r.authority.Phase(kafka)
		return phase == rotation.Trusted, nil
	})
}

// onlyNew: nothing is left of the outgoing authorities in any bundle.
func (r *turning) onlyNew() {
	r.Helper()
	now, err := r.kafka.Trust(r.ctx, r.authority)
	r.must(err)
	for _, old := range r.outgoing {
		if now.Anchor(old).State != trust.Absent || containsCertificate(now.Application, old) {
			r.Errorf("%s is still held", harness.Anchor{Certificate: old}.Name())
		}
	}
}

// clientsKeyReplaced: users with certificates of before and of after are served
// side by side, until a person withdraws the old CA.
func clientsKeyReplaced(s *stage) {
	s.onShared()
	r := s.turning(harness.ClientsCA, everybody())
	r.answers(verdict.Accepted, "mtls")
	r.asks("asked for a new key of the clients CA", func() error { return s.kafka.Replace(s.ctx, harness.ClientsCA) })
	bareLeafServed(r)
	r.until(rotation.WaitingForExpiry)
	r.compare()
	r.notRestarted()

	r.answers(verdict.Accepted, "mtls")
	signer, err := s.kafka.Signer(s.ctx, harness.ClientsCA)
	s.must(err)
	if containsCertificate(r.outgoing, signer.Certificate()) {
		s.Error("the old clients CA still signs")
	}
	old := r.leaf
	r.leaf, err = harness.Leaf(signer, "somebody new")
	s.must(err)
	r.answers(verdict.Accepted, "mtls")
	r.leaf = old
	s.step("the old clients CA withdrawn by command", func() error {
		if err := s.kafka.Distrust(s.ctx, harness.ClientsCA); err != nil {
			return err
		}
		return untilTrusted(r)
	})
	r.answers(verdict.Refused, "mtls")
	r.onlyNew()
}

// bareLeafServed measures how long a user of somebody else's making has to wait, who
// takes a certificate of the new key as soon as it signs, and presents it alone.
func bareLeafServed(r *turning) {
	r.Helper()
	var signed time.Time
	r.step("a certificate of the new clients CA alone is accepted by every node", func() error {
		var bare openssl.Identity
		err := harness.Poll(r.ctx, func() (bool, error) {
			signer, err := r.kafka.Signer(r.ctx, r.authority)
			if err != nil || containsCertificate(r.outgoing, signer.Certificate()) {
				return false, err
			}
			signed = time.Now()
			signer, err = pki.NewAuthority(signer.Certificate(), signer.Key())
			if err == nil {
				bare, err = harness.Leaf(signer, "somebody else")
			}
			return err == nil, err
		})
		if err != nil {
			return err
		}
		return harness.Poll(r.ctx, func() (bool, error) {
			known, err := r.kafka.Trust(r.ctx, harness.ClusterCA)
			if err != nil {
				return false, err
			}
			answers, err := r.watchers.Accepts(r.ctx, "mtls", bare, known.Application...)
			return err == nil && answers.All(verdict.Accepted), err
		})
	})
	r.figures = append(r.figures, report.Observed("a certificate of the new clients CA without its cross certificate is accepted after", time.Since(signed).Seconds(), "s",
		"from the moment in which ca.key is the new key until the last node accepts such a certificate, asked twice a second"))
}

// renewedWithTheSameKey: another certificate of the same key is no reason to
// restart anything.
func renewedWithTheSameKey(s *stage) {
	s.onShared()
	before := s.secret(clusterCA)
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new certificate of the cluster CA", func() error { return s.kafka.Renew(s.ctx, harness.ClusterCA) })
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	r.compare()
	r.within(turnedWithin)
	r.notRestarted()
	s.same("renewed with the same key", before, s.secret(clusterCA), "ca.key")
}

// compromised: whoever has the old key is locked out at once, of controllers, too.
// That takes a restart of each node; who pinned the old CA is cut off, and is not
// among the clients.
func compromised(s *stage) {
	s.onShared()
	s.restarts = true
	r := s.turning(harness.ClusterCA, attentive())
	r.answers(verdict.Accepted, "replication", "controlplane")
	if len(r.holders()) == 0 {
		s.Error("no Secret holds the CA that is about to be distrusted: nothing would be proved by its absence")
	}
	r.asks("the key of the cluster CA replaced, and distrusted now", func() error {
		return s.kafka.ReplaceCompromised(s.ctx, harness.ClusterCA)
	})
	r.until(rotation.Trusted)
	r.finish()
	r.gapWithin(longestGap(s.result, r.began, r.ended), restartGap)
	s.restartedAtMost(1)
	r.answers(verdict.Refused, "replication", "mtls", "controlplane")
	r.onlyNew()
	if held := r.holders(); len(held) > 0 {
		s.Errorf("the distrusted CA is still held by %q", held)
	}
}

// holders lists the entries of Secrets that have the certificate of the authority from
// before.
func (r *turning) holders() []string {
	r.Helper()
	entries, err := r.kafka.Holders(r.ctx, r.outgoing[0])
	r.must(err)
	return entries
}

// reloadSwitchedOff: where nodes may only be restarted, that is enough: twice each
// at most, and nobody is cut off either.
func reloadSwitchedOff(s *stage) {
	s.onShared()
	s.restarts = true
	s.must(s.annotate(reloadAsked, "false"))
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	r.finish()
	r.gapWithin(longestGap(s.result, r.began, r.ended), restartGap)
	r.within(restartedWithin)
	s.restartedAtMost(2)
	r.answers(verdict.Refused, "replication", "mtls")
	s.reloadsAgain()
}

// reloadsAgain leaves the cluster as a scenario without reload has found it.
func (s *stage) reloadsAgain() {
	s.Helper()
	s.step("reload switched on again", func() error {
		if err := s.annotate(reloadAsked, ""); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
}

// replacementAborted: until the old anchor has left, a replacement can be taken
// back, and leaves nothing behind.
func replacementAborted(s *stage) {
	s.onShared()
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("given up as soon as nodes are told to trust it", func() error {
		if err := r.untilChange(string(trust.TrustedUnused)); err != nil {
			return err
		}
		return s.kafka.Abort(s.ctx, harness.ClusterCA)
	})
	old := r.outgoing[0]
	s.step("as it was before", func() error {
		return harness.Poll(s.ctx, func() (bool, error) {
			now, err := s.kafka.Trust(s.ctx, harness.ClusterCA)
			if err != nil {
				return false, err
			}
			return len(now.Anchors) == 1 && now.Anchor(old).State == trust.InUseAll && len(now.Application) == 1 && now.Leads(old), nil
		})
	})
	s.must(untilTrusted(r))
	r.ended = time.Now()
	r.compare()
	r.notRestarted()
	if key := s.secret(clusterCA); len(key.Data["next-ca.key"]) > 0 {
		s.Errorf("Secret %s still has a pending key", key.Name)
	}
}

// replacedTwice asks for another key while one is being replaced. Nobody notices
// that either, not even who pinned the authority before the first: each cross-signs
// the next.
func replacedTwice(s *stage) {
	s.onShared()
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("asked for one more in the middle of it", func() error {
		if err := r.untilChange(string(trust.TrustedUnused)); err != nil {
			return err
		}
		now, err := s.kafka.Trust(s.ctx, harness.ClusterCA)
		if err != nil {
			return err
		}
		for _, anchor := range now.Anchors {
			if !containsCertificate(r.outgoing, anchor.Certificate) {
				r.outgoing = append(r.outgoing, anchor.Certificate)
			}
		}
		return s.kafka.Replace(s.ctx, harness.ClusterCA)
	})
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.compare()
	r.notRestarted()
	r.answers(verdict.Refused, "replication", "mtls")
}
