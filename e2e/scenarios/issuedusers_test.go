package scenarios

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/application"
	"github.com/keyturn/keyturn/internal/report"
)

// clientsCARekeyed: an issuer of cert-manager signs users, and has a new key before anybody was told. What it issues is in tls.* of
// the user's Secret at once. Applications read user.*, which follow when all nodes trust the new CA, and are refused nothing.
func clientsCARekeyed(s *stage) {
	s.fromScratch()
	s.installWith(map[string]any{
		"featureGates":   []string{"+CertManagerCaType"},
		"userOperators":  []map[string]string{{"namespace": s.kafka.Namespace, "cluster": clusterName}},
		"accessOperator": map[string]any{"enabled": true},
	})
	s.step("the issuer's CA is there", s.applyIssuer)
	manifest := s.example("kafka-dual-role.yaml")
	s.must(oneNode(manifest))
	s.must(manifest.Set("Kafka", clusterName, usersOf("my-issuer"), "spec", "clientsCa"))
	s.apply(manifest)
	s.step("the application team applies its manifests", s.applyApplication)
	s.step("the user is ready", func() error { return s.untilObject(&kafkav1.KafkaUserList{}, userName, userReady) })
	s.step("the application has sent and received", func() error {
		return s.untilObject(&appsv1.DeploymentList{}, applicationName, func(object client.Object) bool {
			deployment, ok := object.(*appsv1.Deployment)
			return ok && harness.Available(deployment)
		})
	})
	s.filledByCertManager()

	read := map[string]*connections{"user": s.connecting(userName, "user.crt", "user.key"), "tls": s.connecting(userName, "tls.crt", "tls.key")}
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.must(harness.Let(s.ctx, harness.Quiet))
	old := s.issuersSigner(issuersCA).Certificate()
	next := s.nextCA()
	s.step("the issuer signs with the next CA", s.signWithNextCA)
	s.step("the user's certificate is issued by the next CA", func() error { return s.userReissuedBy(next) })
	s.step("the missing CA is named", func() error {
		return s.untilObject(&kafkav1.KafkaUserList{}, userName, func(object client.Object) bool {
			user, ok := object.(*kafkav1.KafkaUser)
			return ok && slices.ContainsFunc(user.Status.Conditions, func(c condition.Condition) bool {
				return c.Type == condition.Warning && c.Reason == "CertificateNotAdopted"
			})
		})
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
	if leaf := leafIn(s.secret(userName), "user.crt"); !pki.IssuedBy(leaf, old) {
		s.Errorf("user.crt is of %q although nodes trust only %q", leaf.Issuer, old.Subject)
	}
	begun := time.Now()
	s.step("caCert has the next CA alone", func() error { return s.trustOnly(next) })
	s.step("applications read the next certificate", func() error {
		return s.kafka.FollowSecrets(s.ctx, func(secrets map[string]*corev1.Secret) bool {
			leaf := leafIn(secrets[userName], "user.crt")
			return leaf != nil && pki.IssuedBy(leaf, next)
		})
	})
	s.took(begun, "user.crt followed", "from the change of caCert until user.crt is of the next CA")
	s.step("the application presents it", func() error { return s.untilPresented(leafIn(s.secret(userName), "user.crt")) })
	s.must(harness.Let(s.ctx, harness.Quiet))

	for entries, c := range read {
		accepted, refused := c.stop()
		s.figures = append(s.figures, report.Observed("connections with "+entries+".* accepted", float64(accepted), "connections", "four fresh ones a second"))
		if entries == "tls" {
			s.figure(report.AtLeast("connections with tls.* refused", float64(len(refused)), 1, "connections", "fresh ones that read tls.crt and tls.key"))
			continue
		}
		s.figure(report.AtMost("connections with user.* refused", float64(len(refused)), 0, "connections", "fresh ones that read user.crt and user.key"))
		for _, why := range refused {
			s.Errorf("a client that reads user.* was refused: %v", why)
		}
	}
	after, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if restarted := differing(before, after); len(restarted) > 0 {
		s.Errorf("restarted were %v", restarted)
	}
	account, err := s.kafka.Account(s.ctx, applicationName)
	s.must(err)
	s.unharmed(account)
	s.overMutualTLS(account)
	s.filledByCertManager()
}

// usersOf is a clients CA of an issuer below the CA that is published.
func usersOf(issuer string) map[string]any {
	return map[string]any{
		"type": "cert-manager.io", "generateCertificateAuthority": false, "keyAlgorithm": "ECDSA",
		"certManager": map[string]any{
			"issuerRef": map[string]any{"name": issuer, "kind": "Issuer"},
			"caCert":    map[string]any{"secretName": issuersCACert, "certificate": "ca.crt"},
		},
	}
}

// filledByCertManager: the user's Secret has what cert-manager writes beside what applications read, one type, and the user as its
// owner. Its certificate has no organization.
func (s *stage) filledByCertManager() {
	s.Helper()
	secret := s.secret(userName)
	for _, entry := range []string{"ca.crt", "keystore.p12", "tls.crt", "tls.key", "truststore.p12", "user.crt", "user.key", "user.p12", "user.password"} {
		if len(secret.Data[entry]) == 0 {
			s.Errorf("Secret %s has no entry %s", userName, entry)
		}
	}
	if owners := secret.OwnerReferences; secret.Type != corev1.SecretTypeOpaque || len(owners) != 1 || owners[0].Kind != kafkav1.KindKafkaUser {
		s.Errorf("Secret %s has type %s and owners %v", userName, secret.Type, owners)
	}
	if subject := leafIn(secret, "user.crt").Subject.String(); subject != "CN="+userName {
		s.Errorf("the subject is %q", subject)
	}
}

// userReissuedBy has the user's Certificate issued again until it is of a CA.
func (s *stage) userReissuedBy(ca *x509.Certificate) error {
	return harness.Poll(s.ctx, func() (bool, error) {
		before := leafIn(s.secret(userName), corev1.TLSCertKey)
		if pki.IssuedBy(before, ca) {
			return true, nil
		}
		if err := s.kafka.Reissue(s.ctx, userName); err != nil {
			return false, err
		}
		s.untilLeafOf(userName, func(now *x509.Certificate) bool { return !now.Equal(before) })
		return false, nil
	})
}

// untilPresented waits until the application presents a certificate.
func (s *stage) untilPresented(leaf *x509.Certificate) error {
	return harness.Poll(s.ctx, func() (bool, error) {
		account, err := s.kafka.Account(s.ctx, applicationName)
		return err == nil && presents(account, leaf), err
	})
}

func presents(account application.Account, leaf *x509.Certificate) bool {
	return account.Presented != nil && account.Presented.SHA256 == pki.FingerprintOf(leaf).String()
}

// connections are fresh ones that one client opens.
type connections struct {
	end  context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	accepted int
	refused  []error
}

// connecting opens connections until stop is called, with what two entries of a user's Secret hold at each.
func (s *stage) connecting(user, certEntry, keyEntry string) *connections {
	s.Helper()
	ctx, end := context.WithCancel(s.ctx)
	connects, err := s.kafka.AttentiveClient(ctx, user, "mtls", certEntry, keyEntry)
	s.must(err)
	c := &connections{end: end}
	c.done.Go(func() {
		defer connects.Close()
		ticker := time.NewTicker(time.Second / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				c.note(ctx, connects.Connect(ctx))
			}
		}
	})
	s.Cleanup(func() { c.stop() })
	return c
}

func (c *connections) note(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.refused = append(c.refused, fmt.Errorf("at %s: %w", time.Now().Format(time.TimeOnly), err))
	default:
		c.accepted++
	}
}

func (c *connections) stop() (accepted int, refused []error) {
	c.end()
	c.done.Wait()
	return c.accepted, c.refused
}
