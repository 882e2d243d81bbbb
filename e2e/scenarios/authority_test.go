package scenarios

import (
	"bytes"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// Annotations of the CA Secrets.
const (
	forceRenew     = "strimzi.io/force-renew"
	certGeneration = "strimzi.io/ca-cert-generation"
	keyGeneration  = "strimzi.io/ca-key-generation"
	pauseRequest   = "strimzi.io/pause-reconciliation"
	clusterCA      = clusterName + "-cluster-ca"
	clusterCACert  = clusterName + "-cluster-ca-cert"
	clientsCA      = clusterName + "-clients-ca"
	clientsCACert  = clusterName + "-clients-ca-cert"
)

func (s *stage) secret(name string) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{}
	s.must(s.kube.Get(s.ctx, s.kafka.Key(name), secret))
	return secret
}

// same says whether two Secrets agree in a key, without showing it.
func (s *stage) same(what string, before, after *corev1.Secret, key string) {
	s.Helper()
	if len(before.Data[key]) == 0 || !bytes.Equal(before.Data[key], after.Data[key]) {
		s.Errorf("%s: %s of Secret %s is not what it was", what, key, before.Name)
	}
}

func (s *stage) authority(secret *corev1.Secret) []byte {
	s.Helper()
	certificate, err := pki.FirstCertificate(secret.Data["ca.crt"])
	s.must(err)
	return certificate.RawSubject
}

// authorityRenewed asks for a new certificate of the cluster CA's key.
func authorityRenewed(s *stage) {
	s.onShared()
	before, key := s.secret(clusterCACert), s.secret(clusterCA)
	s.underLoad(harness.EveryKind()...)
	s.turns("cluster CA renewed", harness.ClusterCA, func() error { return s.kafka.Renew(s.ctx, harness.ClusterCA) })
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 0)

	after := s.secret(clusterCACert)
	if before.Annotations[certGeneration] == after.Annotations[certGeneration] || bytes.Equal(before.Data["ca.crt"], after.Data["ca.crt"]) {
		s.Error("the certificate of the cluster CA is what it was")
	}
	if before.Annotations[keyGeneration] != after.Annotations[keyGeneration] || !bytes.Equal(s.authority(before), s.authority(after)) {
		s.Error("the key of the cluster CA has another generation, or its certificate another subject")
	}
	if _, asked := after.Annotations[forceRenew]; asked {
		s.Errorf("the annotation %s is still there", forceRenew)
	}
	s.same("renewed with the same password", before, after, "ca.password")
	s.same("renewed with the same key", key, s.secret(clusterCA), "ca.key")
	s.presentedBy(after)
}

// turns does something and waits until another certificate of an authority is used
// by everybody.
func (s *stage) turns(what string, a harness.Authority, do func() error) {
	s.Helper()
	before, err := s.kafka.Trust(s.ctx, a)
	s.must(err)
	s.step(what, func() error {
		if err := do(); err != nil {
			return err
		}
		_, err := s.kafka.UntilTurned(s.ctx, a, before.Application[:1], harness.SettledPhases()...)
		return err
	})
}

// presentedBy checks with fresh handshakes that all nodes present certificates of
// the authority in a Secret, and nothing else verifies them.
func (s *stage) presentedBy(secret *corev1.Secret) {
	s.Helper()
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	answers, err := harness.Verified(s.ctx, opened, "tls", secret.Data["ca.crt"])
	s.must(err)
	if !answers.All(verdict.Accepted) {
		s.Errorf("with the authority of Secret %s alone, the nodes are %v", secret.Name, answers)
	}
}

// lostCertificatesComeBack deletes the Secrets with the certificates of both CAs.
func lostCertificatesComeBack(s *stage) {
	s.onShared()
	names := map[string]string{clusterCACert: clusterCA, clientsCACert: clientsCA}
	certificates, keys := map[string]*corev1.Secret{}, map[string]*corev1.Secret{}
	for certificate, key := range names {
		certificates[certificate], keys[key] = s.secret(certificate), s.secret(key)
	}
	// Clients that re-read a Secret cannot work while it is not there.
	s.underLoad("pinned@tls", "plain@plain")
	s.step("certificates of both CAs deleted, and back as they were", func() error {
		var problems []error
		for name := range names {
			problems = append(problems, s.kube.Delete(s.ctx, &corev1.Secret{ObjectMeta: s.meta(name)}))
		}
		if err := errors.Join(problems...); err != nil {
			return err
		}
		return harness.Poll(s.ctx, func() (bool, error) { return s.areBack(certificates) })
	})
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 0)
	for name, key := range names {
		s.same("the key stays", keys[key], s.secret(key), "ca.key")
		if after := s.secret(name); after.Annotations[certGeneration] != certificates[name].Annotations[certGeneration] {
			s.Errorf("Secret %s has generation %s after %s", name, after.Annotations[certGeneration], certificates[name].Annotations[certGeneration])
		}
	}
	s.presentedBy(s.secret(clusterCACert))
}

// areBack reports whether Secrets that were deleted hold the same certificates again.
func (s *stage) areBack(before map[string]*corev1.Secret) (bool, error) {
	for name, was := range before {
		var now corev1.Secret
		err := s.kube.Get(s.ctx, types.NamespacedName{Namespace: was.Namespace, Name: name}, &now)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil || !bytes.Equal(now.Data["ca.crt"], was.Data["ca.crt"]) {
			return false, err
		}
	}
	return true, nil
}

// pausedMeansPaused asks for a renewal while reconciliation is paused, and takes a
// pod away.
func pausedMeansPaused(s *stage) {
	s.onShared()
	s.underLoad(harness.EveryKind()...)
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	secret := s.secret(clusterCACert)
	s.step("paused", func() error {
		if err := s.annotate(pauseRequest, "true"); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "is paused", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.ReconciliationPaused)
		})
	})
	s.must(s.kube.Annotate(s.ctx, &corev1.Secret{ObjectMeta: s.meta(clusterCACert)}, map[string]string{forceRenew: "true"}))
	victim := before.Names()[0]
	s.step("deleted pod is made again", func() error {
		if err := s.kube.Delete(s.ctx, &corev1.Pod{ObjectMeta: s.meta(victim)}); err != nil {
			return err
		}
		return s.kafka.UntilReplaced(s.ctx, harness.Pods{victim: before[victim]})
	})
	now := s.secret(clusterCACert)
	s.same("nothing is renewed while paused", secret, now, "ca.crt")
	if now.Annotations[forceRenew] != "true" {
		s.Errorf("the annotation %s was taken while paused", forceRenew)
	}
	s.must(s.kube.Annotate(s.ctx, &corev1.Secret{ObjectMeta: s.meta(clusterCACert)}, map[string]string{forceRenew: ""}))
	s.step("resumed", func() error {
		if err := s.annotate(pauseRequest, ""); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "is settled", func(kafka *kafkav1.Kafka) bool {
			return harness.Settled(kafka) && !harness.Has(kafka, condition.ReconciliationPaused)
		})
	})
	s.quietly()
	after, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if replaced := differing(before, after); len(replaced) != 1 {
		s.Errorf("%q were replaced, to be replaced is %s only", replaced, victim)
	}
}

// validity of authorities that scenarios make.
const validity = 90 * 24 * time.Hour

// ownAuthority makes a CA as users have one.
func (s *stage) ownAuthority(name string, lasts time.Duration) pki.Authority {
	s.Helper()
	authority, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: lasts, Now: time.Now(),
	})
	s.must(err)
	return authority
}

// bring writes the two Secrets of a CA that a user brings.
func (s *stage) bring(name string, authority pki.Authority, generation string) {
	s.Helper()
	s.bringBeside(name, authority, generation, nil)
}

// bringBeside is the same with more entries beside the certificate.
func (s *stage) bringBeside(name string, authority pki.Authority, generation string, beside map[string][]byte) {
	s.Helper()
	labels := map[string]string{"strimzi.io/kind": "Kafka", harness.ClusterLabel: clusterName}
	key := &corev1.Secret{ObjectMeta: s.meta(name), Data: map[string][]byte{"ca.key": authority.Key().PEM()}}
	key.Annotations = map[string]string{keyGeneration: "0"}
	certificate := &corev1.Secret{ObjectMeta: s.meta(name + "-cert"), Data: map[string][]byte{"ca.crt": pki.EncodeBundle(authority.Certificate())}}
	maps.Copy(certificate.Data, beside)
	certificate.Annotations = map[string]string{certGeneration: generation}
	for _, secret := range []*corev1.Secret{key, certificate} {
		secret.Labels = labels
		s.must(client.IgnoreAlreadyExists(s.kube.Create(s.ctx, secret)))
	}
	s.must(s.kube.MergePatch(s.ctx, &corev1.Secret{ObjectMeta: s.meta(name + "-cert")}, map[string]any{
		"metadata": map[string]any{"annotations": certificate.Annotations}, "data": certificate.Data,
	}))
}

// usersAuthorities runs a cluster on CAs that a user brings, and renews one.
func usersAuthorities(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(manifest.Set("Kafka", clusterName, false, "spec", "clusterCa", "generateCertificateAuthority"))
	s.must(manifest.Set("Kafka", clusterName, false, "spec", "clientsCa", "generateCertificateAuthority"))
	s.fromScratch()
	s.step("refused without the Secrets", func() error {
		if err := s.kube.Apply(s.ctx, s.kafka.Namespace, manifest); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "misses its Secrets", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.NotReady, "InvalidResourceException", clusterCACert, clusterCA, clientsCACert, clientsCA)
		})
	})
	pods, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if len(pods) > 0 {
		s.Errorf("%q were made without authorities", pods.Names())
	}
	own := s.ownAuthority("my own cluster CA", validity)
	s.step("created as soon as they are there", func() error {
		s.bring(clusterCA, own, "0")
		s.bring(clientsCA, s.ownAuthority("my own clients CA", validity), "0")
		return s.kafka.UntilSettled(s.ctx)
	})

	s.underLoad(harness.EveryKind()...)
	renewed, err := pki.RenewCA(own.Certificate(), own.Key(), validity, time.Now())
	s.must(err)
	s.turns("the user's cluster CA renewed", harness.ClusterCA, func() error {
		s.bring(clusterCA, renewed, "1")
		return nil
	})
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 0)
	after := s.secret(clusterCACert)
	if !bytes.Equal(after.Data["ca.crt"], pki.EncodeBundle(renewed.Certificate())) || len(after.Data) != 1 {
		s.Errorf("Secret %s, which is the user's, was changed", after.Name)
	}
	s.presentedBy(after)
}
