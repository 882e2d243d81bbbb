package scenarios

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// servedAgainWithin is how long it takes from a key that follows one that has ended
// until every node presents it: one start of all nodes.
const servedAgainWithin = 4 * time.Minute

// endedWithoutACrossCertificate lets a CA of the user's end, and brings another key
// after that. Nothing cross-signs it, no node can open a connection to another any
// more, and Kafka loads nothing else, because it tries new stores with those in use.
// That cannot be saved and is named; everything after it goes on by itself.
func endedWithoutACrossCertificate(s *stage) {
	const lifetime = 3 * time.Minute
	manifest := s.example("kafka-dual-role.yaml")
	s.must(errors.Join(small(manifest), manifest.Set("Kafka", clusterName, false, "spec", "clusterCa", "generateCertificateAuthority")))
	s.fromScratch()
	brief := s.ownAuthority("my own cluster CA", lifetime)
	end := brief.Certificate().NotAfter
	s.bring(clusterCA, brief, "0")
	s.apply(manifest)
	s.step("the end of the CA is named beforehand", func() error {
		return s.kafka.Until(s.ctx, "names the end", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.Warning, "CertificateAuthority", end.UTC().Format(time.RFC3339))
		})
	})
	s.underLoad(attentive().kinds...)
	s.step("served nearly until the end", func() error { return harness.Let(s.ctx, time.Until(end)-2*harness.Quiet) })
	s.witness()
	s.restarted(nodes("dual-role", 0, 1, 2), 0)

	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.step("the CA has ended: the cluster is not ready, and what has ended is named", func() error {
		return errors.Join(harness.Let(s.ctx, time.Until(end)), s.kafka.Until(s.ctx, "is not ready", func(kafka *kafkav1.Kafka) bool {
			return !harness.Has(kafka, condition.Ready) && harness.Has(kafka, condition.NotReady, clusterCACert, "expired") &&
				expiredAreNamed(kafka, nodes("dual-role", 0, 1, 2)...)
		}))
	})
	next := s.ownAuthority("my next cluster CA", validity)
	begun := time.Now()
	s.turns("another CA of the user's takes its place", harness.ClusterCA, func() error {
		s.bringKey(clusterCA, next, "1")
		return s.kafka.Until(s.ctx, "names who presents what has ended", func(kafka *kafkav1.Kafka) bool {
			return !harness.Has(kafka, condition.Ready) && harness.Has(kafka, condition.NotReady, "CertificatesExpired")
		})
	})
	s.figure(report.AtMost("served again", time.Since(begun).Seconds(), servedAgainWithin.Seconds(), "s",
		"from the other key until nothing is left to be done"))
	s.step("every node was restarted", func() error { return s.kafka.UntilReplaced(s.ctx, before) })
	s.presentedBy(s.secret(clusterCACert))
	s.underLoad(attentive().kinds...)
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 0)
}

// expiredAreNamed reports whether the Kafka says of all nodes that what they have has
// ended.
func expiredAreNamed(kafka *kafkav1.Kafka, nodes ...string) bool {
	i := slices.IndexFunc(kafka.Status.Conditions, func(c condition.Condition) bool {
		return c.Type == "CertificatesValid" && c.Status == condition.False && c.Reason == "Expired"
	})
	return i >= 0 && !slices.ContainsFunc(nodes, func(node string) bool {
		return !strings.Contains(kafka.Status.Conditions[i].Message, node)
	})
}

// bringKey writes another CA of the user's in the place of one. Its key comes first,
// and for a moment does not belong to the certificate.
func (s *stage) bringKey(name string, authority pki.Authority, generation string) {
	s.Helper()
	s.must(s.kube.MergePatch(s.ctx, &corev1.Secret{ObjectMeta: s.meta(name)}, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{keyGeneration: generation}},
		"data":     map[string][]byte{"ca.key": authority.Key().PEM()},
	}))
	s.bring(name, authority, generation)
}
