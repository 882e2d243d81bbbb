package scenarios

import (
	"crypto/x509"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// secretsLostInTheMiddle deletes what tells of trust, and what a node has, while some
// nodes present the old CA and some the new one. It is made again from what nodes
// remember, and nobody notices. Clients that read ca.crt again and again cannot work
// while it is not there, and are not among them.
func secretsLostInTheMiddle(s *stage) {
	s.onShared()
	r := s.turning(harness.ClusterCA, witnesses{
		kinds: []string{probe.KindPinned + "@tls", probe.KindPlain + "@plain"}, jvm: true, oldOnly: true,
	})
	victim := nodes("dual-role", 1)[0]
	was := s.secret(victim)
	var before harness.Trust
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("certificate, trusted-certs and the Secret of "+victim+" deleted when the first node presents the new CA", func() error {
		if err := r.untilChange(string(trust.InUseAny)); err != nil {
			return err
		}
		seen, err := s.kafka.Trust(s.ctx, harness.ClusterCA)
		if err != nil {
			return err
		}
		before = seen
		return s.lose(clusterCACert, clusterTrusted, victim)
	})
	applicationsGetBoth(r, before)
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.compare()
	r.notRestarted()
	r.answers(verdict.Refused, "replication", "mtls")
	if now := s.secret(victim); now.UID == was.UID {
		s.Errorf("Secret %s was not lost", victim)
	}
	s.presentedBy(s.secret(clusterCACert))
}

// clusterTrusted is the Secret with the anchors of the cluster CA that pods mount.
const clusterTrusted = clusterName + "-cluster-ca-trusted-certs"

// lose deletes Secrets at once.
func (s *stage) lose(names ...string) error {
	var problems []error
	for _, name := range names {
		problems = append(problems, s.kube.Delete(s.ctx, &corev1.Secret{ObjectMeta: s.meta(name)}))
	}
	return errors.Join(problems...)
}

// applicationsGetBoth: the first ca.crt that is there again has the certificates of
// before its loss, and who reads it then accepts every node.
func applicationsGetBoth(r *turning, before harness.Trust) {
	r.Helper()
	var given []*x509.Certificate
	r.step("applications get both CAs again", func() error {
		return r.kafka.FollowTrust(r.ctx, r.authority, func(now harness.Trust) (bool, error) {
			given = now.Application
			return true, nil
		})
	})
	if len(before.Application) != len(r.before.Application)+1 {
		r.Errorf("ca.crt had %d certificates before it was lost: that was not in the middle", len(before.Application))
	}
	for _, certificate := range before.Application {
		if !slices.ContainsFunc(given, certificate.Equal) {
			r.Errorf("the ca.crt that was made again has no %s", harness.Anchor{Certificate: certificate}.Name())
		}
	}
	answers, err := harness.Verified(r.ctx, r.target, "tls", pki.EncodeBundle(given...))
	r.must(err)
	if !answers.All(verdict.Accepted) {
		r.Errorf("who reads the ca.crt that was made again finds nodes %v", answers)
	}
}
