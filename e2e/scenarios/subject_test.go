package scenarios

import (
	"crypto/x509"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/trust"
)

// renewedWithAnotherSubject has a user bring the CA with its key and another subject:
// to OpenSSL and the JVM another authority. The key vouches for itself, so that no node
// restarts, and whoever has pinned the certificate before is served, also when nothing
// else remembers that.
func renewedWithAnotherSubject(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(errors.Join(small(manifest), manifest.Set("Kafka", clusterName, false, "spec", "clusterCa", "generateCertificateAuthority")))
	s.fromScratch()
	one := s.ownAuthority("my own cluster CA", validity)
	s.bringBeside(clusterCA, one, "0", s.trustStore(one.Certificate()))
	s.apply(manifest)
	s.step("servers warmed up", func() error { return s.kafka.WarmUp(s.ctx, harness.EveryKind()) })
	two, err := pki.SelfSign(one.Key(), pki.CASpec{Subject: pki.Subject{CommonName: "my renamed cluster CA"}, Validity: validity, Now: time.Now()})
	s.must(err)

	r := s.turning(harness.ClusterCA, ownersClients(two.Certificate()))
	r.answers(verdict.Accepted, "replication")
	dated := authority.DatedCertKey(one.Certificate())
	r.asks("the user's cluster CA renewed with another subject", func() error {
		s.bringBeside(clusterCA, two, "1", map[string][]byte{dated: pki.EncodeBundle(one.Certificate())})
		return nil
	})
	r.until(authorities.RaftRestartsPending)
	s.must(r.untilTold(string(trust.CrossSigned)))
	r.compare()
	r.within(turnedWithin)
	r.notRestarted()

	s.presentedBy(s.secret(clusterCACert))
	r.answers(verdict.Refused, "replication", "mtls")
	s.step("nothing left of the certificate before", func() error {
		err := s.kube.MergePatch(s.ctx, &corev1.Secret{ObjectMeta: s.meta(clusterCACert)}, map[string]any{"data": map[string]any{dated: nil}})
		if err != nil {
			return err
		}
		if err := s.kafka.Roll(s.ctx); err != nil {
			return err
		}
		return untilTrusted(r)
	})
	answers, err := harness.Verified(s.ctx, r.target, "tls", pki.EncodeBundle(one.Certificate()))
	s.must(err)
	if !answers.All(verdict.Accepted) {
		s.Errorf("with the certificate before alone, the nodes are %v", answers)
	}
}

// ownersClients know what a user of the cluster tells them: all certificates, or those
// of the beginning. Whoever reads ca.crt alone has the new CA as soon as the user has,
// and before a node can present its leaf.
func ownersClients(coming *x509.Certificate) witnesses {
	return witnesses{
		kinds: []string{
			probe.KindPinned + "@tls", probe.KindAll + "@tls", probe.KindMTLS + "@mtls", probe.KindReissued + "@mtls",
			probe.KindSCRAM + "@scram", probe.KindPlain + "@plain",
		},
		jvm: true, oldOnly: true, early: []*x509.Certificate{coming},
	}
}

// trustStore is what a JVM reads from the Secret of a CA.
func (s *stage) trustStore(ca *x509.Certificate) map[string][]byte {
	s.Helper()
	password, err := pki.NewPassword()
	s.must(err)
	store, err := pki.EncodeTrustStore([]pki.TrustEntry{{Alias: "ca.crt", Certificate: ca}}, password)
	s.must(err)
	return map[string][]byte{"ca.p12": store, "ca.password": []byte(password)}
}
