package scenarios

import (
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/rotation"
)

// movedIn: a cluster with a CA of Keyturn's gets certificates of an issuer. In the end the key of the CA before is deleted.
func movedIn(s *stage) {
	s.fromScratch()
	s.installWith(map[string]any{"featureGates": []string{"+CertManagerCaType"}})
	s.step("the issuer's CA is there", s.applyIssuer)
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.apply(manifest)
	s.restarts = true
	before := s.secret(clusterCACert)
	r := s.turning(harness.ClusterCA, attentive())
	r.asks("the Kafka asks for the issuer", func() error { return s.askFor("my-issuer", issuersCACert) })
	applicationsCanRead(r)
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyed(r, before)
	s.step("the key of the CA before is deleted", func() error {
		return harness.Poll(s.ctx, func() (bool, error) {
			err := s.kube.Get(s.ctx, s.kafka.Key(clusterCA), &corev1.Secret{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	})
	s.noKeyOf(s.secret(issuersCACert))
	s.certificatesOfTheKafka(leaves())
	s.cutsOff(r, "CA of Keyturn's")
}

// movedToOwnKeys: a cluster with certificates of an issuer gets a CA whose key its user has, by the steps of the documentation.
func movedToOwnKeys(s *stage) {
	s.onIssuer()
	s.restarts = true
	old := s.issuersSigner(issuersCA)
	dated := authority.DatedCertKey(old.Certificate())
	own := s.ownAuthority("my own cluster CA", validity)
	r := s.turningFrom(old, harness.ClusterCA, readersOfAll(own.Certificate()))
	r.asks("the user's CA is in the place of the issuer's", func() error {
		if err := s.annotate(pauseRequest, "true"); err != nil {
			return err
		}
		s.bringBeside(clusterCA, own, "1", map[string][]byte{dated: pki.EncodeBundle(old.Certificate())})
		if err := s.change(map[string]any{"clusterCa": map[string]any{"type": "strimzi.io", "certManager": nil}}); err != nil {
			return err
		}
		return s.annotate(pauseRequest, "")
	})
	r.until(rotation.WaitingForOwner)
	s.must(r.untilTold("remove " + dated))
	r.step("what is left of the issuer is deleted", func() error { return s.forgetIssuer(dated) })
	r.until(rotation.Trusted)
	r.finish()
	r.gapWithin(longestGap(s.result, r.began, r.ended), restartGap)
	r.within(restartedWithin)
	s.restartedAtMost(2)
	r.answers(verdict.Refused, "replication", "mtls")
	s.presentedBy(s.secret(clusterCACert))
	s.cutsOff(r, "issuer's CA")
}

// issuerChanged: a cluster gets its certificates from another issuer, by one change of the Kafka.
func issuerChanged(s *stage) {
	s.onIssuer()
	s.restarts = true
	signer, before := s.issuersSigner(issuersCA), s.secret(clusterCACert)
	next := s.nextCA()
	s.must(s.kube.Create(s.ctx, &corev1.Secret{ObjectMeta: s.meta(nextIssuersCA + "-cert"), Data: map[string][]byte{"ca.crt": pki.EncodeBundle(next)}}))
	issuer := s.kafka.Of("Issuer", "my-next-issuer")
	issuer.Object["spec"] = map[string]any{"ca": map[string]any{"secretName": nextIssuersCA}}
	s.must(s.kube.Create(s.ctx, issuer))
	r := s.turningFrom(signer, harness.ClusterCA, attentive())
	r.asks("the Kafka asks for the other issuer", func() error { return s.askFor("my-next-issuer", nextIssuersCA+"-cert") })
	applicationsCanRead(r)
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyed(r, before)
	s.cutsOff(r, "CA of the issuer before")
}

// askFor makes the cluster CA that of an issuer.
func (s *stage) askFor(issuer, bundle string) error {
	return s.change(map[string]any{"clusterCa": map[string]any{
		"type": "cert-manager.io", "generateCertificateAuthority": false,
		"certManager": map[string]any{
			"issuerRef": map[string]any{"name": issuer, "kind": "Issuer"},
			"caCert":    map[string]any{"secretName": bundle, "certificate": "ca.crt"},
		},
	}})
}

// readersOfAll read all entries that end in .crt, again and again: of a user's CA ca.crt is what the user has put there.
func readersOfAll(coming *x509.Certificate) witnesses {
	return witnesses{early: []*x509.Certificate{coming}, kinds: []string{
		probe.KindAll + "@tls", probe.KindMTLS + "@mtls", probe.KindReissued + "@mtls", probe.KindSCRAM + "@scram", probe.KindPlain + "@plain",
	}}
}

// forgetIssuer deletes what was asked of an issuer, as it is the user's to do, and its CA, which no node trusts any more.
func (s *stage) forgetIssuer(dated string) error {
	for _, name := range leaves() {
		if err := s.kube.Delete(s.ctx, s.kafka.Of("Certificate", name)); err != nil {
			return fmt.Errorf("deleting Certificate %s: %w", name, err)
		}
		if err := s.kube.Delete(s.ctx, &corev1.Secret{ObjectMeta: s.meta(name + "-cm")}); err != nil {
			return fmt.Errorf("deleting Secret %s-cm: %w", name, err)
		}
	}
	return s.kube.MergePatch(s.ctx, &corev1.Secret{ObjectMeta: s.meta(clusterCACert)}, map[string]any{"data": map[string]any{dated: nil}})
}

// cutsOff tells what becomes of a client that has stored the CA before alone: nothing cross-signs the next one.
func (s *stage) cutsOff(r *turning, whose string) {
	s.Helper()
	answers, err := harness.Verified(s.ctx, r.target, "tls", pki.EncodeBundle(r.outgoing...))
	s.must(err)
	s.notes = append(s.notes, fmt.Sprintf("a client with the %s alone finds nodes that are %v", whose, answers))
	if answers.Any(verdict.Accepted) {
		s.Errorf("the %s still verifies nodes: %v", whose, answers)
	}
}
