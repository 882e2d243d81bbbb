package scenarios

import (
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/rotation"
)

// readingTime is what applications get to read a new CA that nothing cross-signs.
const readingTime = 2 * time.Minute

// keyLost: a lost key is a replacement. Nothing can cross-sign the new one, so
// applications get time to read it; who pinned the old CA is not among the clients.
func keyLost(s *stage) {
	s.onShared()
	s.restarts = true
	turnsUnvouched(s)
	s.restartedAtMost(2)
}

// keyLostWithoutReload takes the longest way that there is: trust, leaf and the end of
// trust by a restart each.
func keyLostWithoutReload(s *stage) {
	s.onShared()
	s.restarts = true
	s.must(s.annotate(reloadAsked, "false"))
	turnsUnvouched(s)
	s.restartedAtMost(3)
	s.reloadsAgain()
}

// turnsUnvouched loses the key of the cluster CA, and holds what comes of it against
// what is promised of it, but for the restarts.
func turnsUnvouched(s *stage) {
	s.Helper()
	r := s.turning(harness.ClusterCA, attentive())
	r.asks("the Secret with the key of the cluster CA deleted", func() error { return s.kafka.LoseKey(s.ctx, harness.ClusterCA) })
	applicationsCanRead(r)
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	r.finish()
	r.gapWithin(longestGap(s.result, r.began, r.ended), restartGap)
	r.within(restartedWithin)
	r.answers(verdict.Refused, "replication", "mtls")
}

// applicationsCanRead holds how long ca.crt has a CA that it had not before, until a node
// presents what that has signed.
func applicationsCanRead(r *turning) {
	r.Helper()
	var given, without time.Time
	r.step("a node presents a leaf of the new CA", func() error {
		authority, err := r.untilGiven()
		if err != nil {
			return err
		}
		given = time.Now()
		return harness.Poll(r.ctx, func() (bool, error) {
			looked := time.Now()
			answers, err := harness.Verified(r.ctx, r.target, "tls", pki.EncodeBundle(authority))
			if answers.Any(verdict.Accepted) {
				return true, err
			}
			if answers.Any(verdict.Refused) {
				without = looked
			}
			return false, err
		})
	})
	r.figure(report.AtLeast("applications can read the new CA before a node presents its leaf", without.Sub(given).Seconds(), readingTime.Seconds(), "s",
		"from the moment in which ca.crt holds the new CA until the last look, twice a second, at which it verified none of the nodes that answered"))
}

// untilGiven waits until applications have an authority that they did not have when the
// scenario began.
func (r *turning) untilGiven() (*x509.Certificate, error) {
	var fresh *x509.Certificate
	err := r.kafka.FollowTrust(r.ctx, r.authority, func(now harness.Trust) (bool, error) {
		for _, certificate := range now.Application {
			if !containsCertificate(r.before.Application, certificate) {
				fresh = certificate
			}
		}
		return fresh != nil, nil
	})
	return fresh, err
}
