package scenarios

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// What is promised of a certificate that its issuer renews.
const (
	copiedWithin    = 2 * time.Second
	presentedWithin = 10 * time.Second
)

// leafRenewed: cert-manager renews every certificate on one day. Nodes load them, and no client is affected.
func leafRenewed(s *stage) {
	s.onIssuer()
	s.step("servers warmed up", func() error { return s.kafka.WarmUp(s.ctx, harness.EveryKind()) })
	r := s.turningFrom(s.issuersSigner(issuersCA), harness.ClusterCA, everybody())
	before := s.secret(clusterCACert)
	issued := s.reissued("all certificates issued again", func() error { return s.kafka.Reissue(s.ctx, leaves()...) })
	r.began = issued[leaves()[0]]
	r.presented(issued)
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	r.ended = time.Now()
	r.compare()
	r.notRestarted()
	s.same("the CA stays", before, s.secret(clusterCACert), "ca.crt")
	s.generations(before, 0, 0)
}

// issuersCARenewed: the CA of the issuer gets another certificate for its key. That is trusted by everything that trusts the
// one before, and no certificate is issued again for it.
func issuersCARenewed(s *stage) {
	s.onIssuer()
	s.step("servers warmed up", func() error { return s.kafka.WarmUp(s.ctx, harness.EveryKind()) })
	r := s.turningFrom(s.issuersSigner(issuersCA), harness.ClusterCA, everybody())
	before := s.secret(clusterCACert)
	renewed := s.renewIssuersCA()
	r.asks("caCert has the renewed certificate", func() error { return s.trustOnly(renewed) })
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	r.compare()
	r.within(turnedWithin)
	r.notRestarted()
	s.generations(before, 1, 0)
	s.presentedBy(s.secret(clusterCACert))
}

// rekeyedBundleFirst: nodes trust the next CA of an issuer before it signs. When the bundle drops the CA before, certificates
// are issued again because the operator asks: one, and the others when that is of the next CA.
func rekeyedBundleFirst(s *stage) {
	s.onIssuer()
	s.restarts = true
	old := s.issuersSigner(issuersCA).Certificate()
	before := s.secret(clusterCACert)
	next := s.nextCA()
	r := s.turningFrom(s.issuersSigner(issuersCA), harness.ClusterCA, attentive())
	r.asks("caCert has both CAs", func() error { return s.trustOnly(old, next) })
	s.step("all nodes trust the next CA", func() error { return s.untilAnchor(next, trust.TrustedUnused) })
	s.step("the issuer signs with the next CA", s.signWithNextCA)
	issued := make(chan []string, 1)
	go func() { issued <- s.orderOfIssue(next) }()
	s.step("caCert has the next CA alone", func() error { return s.trustOnly(next) })
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyed(r, before)
	if order := <-issued; len(order) != len(leaves()) || order[0] != nodes("dual-role", 0)[0] {
		s.Errorf("certificates were issued again in the order %q: the first is to be that of the first node", order)
	}
}

// rekeyedLeavesFirst: the issuer has a new key before anybody was told. What it issues is not presented, and the Kafka says
// which CA is missing; nodes keep their certificates until caCert has it.
func rekeyedLeavesFirst(s *stage) {
	s.onIssuer()
	s.restarts = true
	signer, before := s.issuersSigner(issuersCA), s.secret(clusterCACert)
	r := s.turningFrom(signer, harness.ClusterCA, attentive())
	next := s.rekeyIssuersCA()
	s.issuerFirst(next)
	s.presentedBy(before)
	r.notRestarted()
	r.asks("caCert has the next CA", func() error { return s.trustOnly(next) })
	applicationsCanRead(r)
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyed(r, before)
}

// issuerFirst has all certificates issued by a CA that caCert lacks, and holds that it is named.
func (s *stage) issuerFirst(next *x509.Certificate) {
	s.Helper()
	s.step("certificates issued by the next CA", func() error { return s.reissueBy(next, leaves()...) })
	s.step("the missing CA is named", func() error {
		return s.kafka.Until(s.ctx, "names the missing CA", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.Warning, "CertificateNotAdopted", next.Subject.String(), keyIdentifier(next))
		})
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
}

// issuerFirstThenNewKey: certificates that wait for their CA are not issued again, and another key of the issuer directly
// afterwards waits for nothing that the first one has left behind.
func issuerFirstThenNewKey(s *stage) {
	s.onIssuer()
	s.restarts = true
	signer, before := s.issuersSigner(issuersCA), s.secret(clusterCACert)
	next, w := s.rekeyIssuersCA(), attentive()
	w.early = append(w.early, next) // who stores it alone is cut off by the third key: nothing cross-signs
	r := s.turningFrom(signer, harness.ClusterCA, w)
	s.issuerFirst(next)
	issued := s.revisions()
	r.asks("caCert has the next CA", func() error { return s.trustOnly(next) })
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	if now := s.revisions(); !maps.Equal(issued, now) {
		s.Errorf("certificates were issued again although they waited for their CA: revisions were %v and are %v", issued, now)
	}

	third := s.rekeyIssuersCA()
	r.outgoing = append(r.outgoing, next)
	r.asks("caCert has a third CA", func() error { return s.trustOnly(third) })
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyedOften(r, before, 2)
}

// revisions are how often cert-manager has issued each certificate.
func (s *stage) revisions() map[string]int64 {
	s.Helper()
	revisions := map[string]int64{}
	for _, name := range leaves() {
		certificate := s.kafka.Of("Certificate", name)
		s.must(s.kube.Get(s.ctx, s.kafka.Key(name), certificate))
		revision, _, err := unstructured.NestedInt64(certificate.Object, "status", "revision")
		s.must(err)
		revisions[name] = revision
	}
	return revisions
}

// keyIdentifier is written as OpenSSL writes it.
func keyIdentifier(ca *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", ca.SubjectKeyId), " ", ":")
}

// killedInARekey kills the operator at random moments of a re-key.
func killedInARekey(s *stage) {
	const kills, longestLife = 8, 10 * time.Second
	seed := uint64(time.Now().UnixNano())
	chance := rand.New(rand.NewPCG(seed, 0))
	s.notes = append(s.notes, fmt.Sprintf("moments by the seed %d", seed))
	s.onIssuer()
	s.restarts = true
	signer, before := s.issuersSigner(issuersCA), s.secret(clusterCACert)
	next := s.nextCA()
	r := s.turningFrom(signer, harness.ClusterCA, attentive())
	s.step("the issuer signs with the next CA", s.signWithNextCA)
	r.asks("caCert has the next CA", func() error { return s.trustOnly(next) })
	s.step(fmt.Sprintf("operator killed %d times", kills), func() error {
		for range kills {
			if err := s.kube.UntilLed(s.ctx); err != nil {
				return err
			}
			if err := harness.Let(s.ctx, time.Duration(chance.Int64N(int64(longestLife)))); err != nil {
				return err
			}
			if err := s.kube.CrashOperator(s.ctx); err != nil {
				return err
			}
		}
		return nil
	})
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyed(r, before)
}

// downInARekey: no operator runs from before the re-key until long after it. The next one finds a bundle and certificates of
// the next CA alone, and nodes that trust the CA before alone.
func downInARekey(s *stage) {
	s.onIssuer()
	s.restarts = true
	signer, before := s.issuersSigner(issuersCA), s.secret(clusterCACert)
	r := s.turningFrom(signer, harness.ClusterCA, attentive())
	var start func() error
	s.step("the operator is stopped", func() error {
		var err error
		start, err = s.kube.StopOperator(s.ctx)
		return err
	})
	s.Cleanup(func() { _ = start() }) // the installation sets it, too
	next := s.rekeyIssuersCA()
	s.step("caCert and all certificates are of the next CA", func() error {
		if err := s.trustOnly(next); err != nil {
			return err
		}
		return s.reissueBy(next, leaves()...)
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
	r.notRestarted()
	r.asks("the operator is started", func() error { return start() })
	applicationsCanRead(r)
	r.until(rotation.Trusted, authorities.RaftRestartsPending)
	s.rekeyed(r, before)
}

// rekeyed ends the clients of a re-key, and holds what came of it against what is promised.
func (s *stage) rekeyed(r *turning, before *corev1.Secret) {
	s.Helper()
	s.rekeyedOften(r, before, 1)
}

// rekeyedOften does so after several keys, of which the last one is timed.
func (s *stage) rekeyedOften(r *turning, before *corev1.Secret, keys int) {
	s.Helper()
	r.finish()
	r.gapWithin(longestGap(s.result, r.began, r.ended), restartGap)
	r.within(restartedWithin)
	s.restartedAtMost(2 * keys)
	r.answers(verdict.Refused, "replication", "mtls")
	s.presentedBy(s.secret(clusterCACert))
	if now := s.secret(clusterCACert); now.Annotations[keyGeneration] == before.Annotations[keyGeneration] {
		s.Errorf("the generation of the key is still %s", now.Annotations[keyGeneration])
	}
}

// issuersSigner is the CA in a Secret that cert-manager fills.
func (s *stage) issuersSigner(name string) pki.Authority {
	s.Helper()
	secret := s.secret(name)
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	s.must(err)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey) // cert-manager writes the older forms
	s.must(err)
	key, err := pki.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	s.must(err)
	signer, err := pki.NewAuthority(pair.Leaf, key)
	s.must(err)
	return signer
}

// nextIssuersCA is a CA beside that of the example.
const nextIssuersCA = "my-next-ca"

// nextCA has cert-manager make a CA with which no issuer signs yet.
func (s *stage) nextCA() *x509.Certificate {
	s.Helper()
	next := s.kafka.Of("Certificate", issuersCA)
	s.must(s.kube.Get(s.ctx, s.kafka.Key(issuersCA), next))
	spec, ok := next.Object["spec"].(map[string]any)
	if !ok {
		s.Fatalf("Certificate %s has no spec", issuersCA)
	}
	spec["secretName"], spec["commonName"] = nextIssuersCA, nextIssuersCA
	fresh := s.kafka.Of("Certificate", nextIssuersCA)
	fresh.Object["spec"] = spec
	s.must(s.kube.Create(s.ctx, fresh))
	return s.untilLeafOf(nextIssuersCA, func(*x509.Certificate) bool { return true })
}

func (s *stage) signWithNextCA() error {
	return s.kube.MergePatch(s.ctx, s.kafka.Of("Issuer", "my-issuer"), map[string]any{"spec": map[string]any{"ca": map[string]any{"secretName": nextIssuersCA}}})
}

// renewIssuersCA has cert-manager issue the issuer's CA again, for the same key unless its Certificate says otherwise.
func (s *stage) renewIssuersCA() *x509.Certificate {
	s.Helper()
	old := s.issuersSigner(issuersCA).Certificate()
	var renewed *x509.Certificate
	s.step("the issuer's CA is issued again", func() error {
		if err := s.kafka.Reissue(s.ctx, issuersCA); err != nil {
			return err
		}
		renewed = s.untilLeafOf(issuersCA, func(now *x509.Certificate) bool { return !now.Equal(old) })
		return nil
	})
	return renewed
}

// rekeyIssuersCA gives the issuer a CA of the same name with another key.
func (s *stage) rekeyIssuersCA() *x509.Certificate {
	s.Helper()
	s.must(s.kube.MergePatch(s.ctx, s.kafka.Of("Certificate", issuersCA), map[string]any{
		"spec": map[string]any{"privateKey": map[string]any{"rotationPolicy": "Always"}},
	}))
	return s.renewIssuersCA()
}

// untilLeafOf waits until cert-manager has issued a certificate into a Secret.
func (s *stage) untilLeafOf(secret string, is func(*x509.Certificate) bool) *x509.Certificate {
	s.Helper()
	var issued *x509.Certificate
	s.must(s.kafka.FollowSecrets(s.ctx, func(secrets map[string]*corev1.Secret) bool {
		issued = leafIn(secrets[secret], corev1.TLSCertKey)
		return issued != nil && is(issued)
	}))
	return issued
}

// trustOnly replaces the bundle of the Kafka.
func (s *stage) trustOnly(cas ...*x509.Certificate) error {
	return s.kube.MergePatch(s.ctx, &corev1.Secret{ObjectMeta: s.meta(issuersCACert)}, map[string]any{
		"data": map[string][]byte{"ca.crt": pki.EncodeBundle(cas...)},
	})
}

func (s *stage) untilAnchor(ca *x509.Certificate, state trust.State) error {
	return s.kafka.FollowTrust(s.ctx, harness.ClusterCA, func(now harness.Trust) (bool, error) { return now.Anchor(ca).State == state, nil })
}

// reissueBy has Certificates issued again until they are of a CA: an issuer may sign with the previous one for a moment.
func (s *stage) reissueBy(ca *x509.Certificate, names ...string) error {
	for _, name := range names {
		err := harness.Poll(s.ctx, func() (bool, error) {
			before := leafIn(s.secret(name+"-cm"), corev1.TLSCertKey)
			if pki.IssuedBy(before, ca) {
				return true, nil
			}
			if err := s.kafka.Reissue(s.ctx, name); err != nil {
				return false, err
			}
			s.untilLeafOf(name+"-cm", func(now *x509.Certificate) bool { return !now.Equal(before) })
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("having Certificate %s issued by the next CA: %w", name, err)
		}
	}
	return nil
}

// reissued does something that has all certificates issued again, and holds how soon each is in the Secret of the node or the
// operator. It returns when each was issued.
func (s *stage) reissued(what string, do func() error) map[string]time.Time {
	s.Helper()
	before, issued, copied := map[string]*x509.Certificate{}, map[string]time.Time{}, map[string]time.Time{}
	for _, name := range leaves() {
		before[name] = leafIn(s.secret(name+"-cm"), corev1.TLSCertKey)
	}
	s.step(what, func() error {
		if err := do(); err != nil {
			return err
		}
		return s.kafka.FollowSecrets(s.ctx, func(secrets map[string]*corev1.Secret) bool {
			for _, name := range leaves() {
				fresh := leafIn(secrets[name+"-cm"], corev1.TLSCertKey)
				if fresh == nil || fresh.Equal(before[name]) {
					continue
				}
				if issued[name].IsZero() {
					issued[name] = time.Now()
				}
				if mine := leafIn(secrets[name], entryOf(name)); mine != nil && mine.Equal(fresh) && copied[name].IsZero() {
					copied[name] = time.Now()
				}
			}
			return len(copied) == len(leaves())
		})
	})
	for _, name := range leaves() {
		s.figure(report.AtMost("certificate of "+name+" copied", copied[name].Sub(issued[name]).Seconds(), copiedWithin.Seconds(), "s",
			"from when the Secret that cert-manager fills has it until that of the node or the operator has it"))
	}
	return issued
}

// presented holds how soon each node presents the certificate in its Secret, on a listener of its own and on one of clients.
func (r *turning) presented(issued map[string]time.Time) {
	r.Helper()
	credentials, err := r.kafka.Credentials(r.ctx)
	r.must(err)
	seen := map[string]time.Time{}
	r.step("presented by all nodes", func() error {
		return harness.Poll(r.ctx, func() (bool, error) {
			for _, node := range r.target.Network().Nodes() {
				want := pki.FingerprintOf(leafIn(r.secret(node.Name), entryOf(node.Name))).String()
				presents := func(port int32) bool {
					return shows(r.ctx, r.target, credentials, hostPort(node.Host, port)).leaf == want
				}
				if seen[node.Name].IsZero() && presents(9091) && presents(9093) {
					seen[node.Name] = time.Now()
				}
			}
			return len(seen) == len(r.target.Network().Nodes()), nil
		})
	})
	for node, at := range seen {
		r.figure(report.AtMost("certificate presented by "+node, at.Sub(issued[node]).Seconds(), presentedWithin.Seconds(), "s",
			"from when the Secret that cert-manager fills has it until fresh handshakes show it on 9091 and 9093, asked twice a second"))
	}
}

// orderOfIssue are the certificates that a CA issues, in the order in which it issues them, until that are all or the
// scenario ends.
func (s *stage) orderOfIssue(ca *x509.Certificate) []string {
	var order []string
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	_ = s.kafka.FollowSecrets(ctx, func(secrets map[string]*corev1.Secret) bool { // an order that is incomplete is found by its length
		for _, name := range leaves() {
			if fresh := leafIn(secrets[name+"-cm"], corev1.TLSCertKey); fresh != nil && pki.IssuedBy(fresh, ca) && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		return len(order) == len(leaves())
	})
	return order
}

// entryOf is the entry of a node's or the operator's Secret that has its certificate.
func entryOf(secret string) string {
	if secret == operatorLeaf {
		return "cluster-operator.crt"
	}
	return secret + ".crt"
}

// leafIn is the certificate that an entry begins with; nil without one.
func leafIn(secret *corev1.Secret, entry string) *x509.Certificate {
	if secret == nil {
		return nil
	}
	certificate, err := pki.FirstCertificate(secret.Data[entry])
	if err != nil {
		return nil
	}
	return certificate
}

// generations holds by how much the generations of the cluster CA were raised.
func (s *stage) generations(before *corev1.Secret, cert, key int) {
	s.Helper()
	now := s.secret(clusterCACert)
	for annotation, more := range map[string]int{certGeneration: cert, keyGeneration: key} {
		var was, is int
		if _, err := fmt.Sscan(before.Annotations[annotation]+" "+now.Annotations[annotation], &was, &is); err != nil || is-was != more {
			s.Errorf("%s went from %q to %q, to be raised by %d", annotation, before.Annotations[annotation], now.Annotations[annotation], more)
		}
	}
}
