package scenarios

import (
	"crypto/x509"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// withIssuedUsers installs what lets an issuer sign users whose operator runs beside the nodes, and applies the issuer of the example.
func (s *stage) withIssuedUsers(further map[string]any) {
	s.Helper()
	s.fromScratch()
	values := map[string]any{"featureGates": []string{"+CertManagerCaType"}}
	maps.Copy(values, further)
	s.installWith(values)
	s.step("the issuer's CA is there", s.applyIssuer)
}

// besideOneNode is a cluster of one node whose Kafka asks for a user operator.
func (s *stage) besideOneNode() harness.Manifest {
	s.Helper()
	manifest := s.example("kafka-dual-role.yaml")
	s.must(oneNode(manifest))
	s.must(manifest.Set("Kafka", clusterName, map[string]any{"userOperator": map[string]any{}}, "spec", "entityOperator"))
	return manifest
}

// issuedBesideTheNodes: a cluster whose users have certificates of its own CA gets an issuer for them. The user operator beside the
// nodes asks that issuer, and what reads user.* goes on without an error.
func issuedBesideTheNodes(s *stage) {
	s.withIssuedUsers(nil)
	s.apply(s.besideOneNode())
	s.createTopics(allowedTopic)
	s.servesUser("before", "mtls", kafkav1.UserTLS)
	s.hasNoClusterRole()

	fresh := s.connecting("before", "user.crt", "user.key")
	issuing := s.issuersSigner(issuersCA).Certificate()
	s.step("the Kafka asks for an issuer of users", func() error {
		return s.kube.MergePatch(s.ctx, &kafkav1.Kafka{ObjectMeta: s.meta(clusterName)}, map[string]any{"spec": map[string]any{"clientsCa": usersOf("my-issuer")}})
	})
	s.step("the user that was there has a certificate of the issuer", func() error { return s.untilIssued("before", issuing) })
	s.servesUser("afterwards", "mtls", kafkav1.UserTLS)
	s.step("the user that came afterwards has one, too", func() error { return s.untilIssued("afterwards", issuing) })

	first := leafIn(s.secret("before"), "user.crt")
	s.step("a certificate is issued again", func() error {
		if err := s.kafka.Reissue(s.ctx, "before"); err != nil {
			return err
		}
		return s.kafka.FollowSecrets(s.ctx, func(secrets map[string]*corev1.Secret) bool {
			leaf := leafIn(secrets["before"], "user.crt")
			return leaf != nil && !leaf.Equal(first)
		})
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
	accepted, refused := fresh.stop()
	s.figure(report.AtLeast("connections accepted", float64(accepted), 1, "connections", "four fresh ones a second"))
	s.figure(report.AtMost("connections refused", float64(len(refused)), 0, "connections", "fresh ones that read user.crt and user.key"))
	for _, why := range refused {
		s.Errorf("a client that reads user.* was refused: %v", why)
	}
}

func (s *stage) untilIssued(user string, ca *x509.Certificate) error {
	return s.kafka.FollowSecrets(s.ctx, func(secrets map[string]*corev1.Secret) bool {
		leaf := leafIn(secrets[user], "user.crt")
		return leaf != nil && pki.IssuedBy(leaf, ca)
	})
}

// hasNoClusterRole holds that the user operator beside the nodes has rights in its namespace alone.
func (s *stage) hasNoClusterRole() {
	s.Helper()
	bindings := &rbacv1.ClusterRoleBindingList{}
	s.must(s.kube.List(s.ctx, bindings))
	for _, binding := range bindings.Items {
		for _, subject := range binding.Subjects {
			if subject.Namespace == s.kafka.Namespace && subject.Name == s.operatorPod().Spec.ServiceAccountName {
				s.Errorf("ClusterRoleBinding %s is about the user operator", binding.Name)
			}
		}
	}
}

// issuingCA is an intermediate below the CA of the issuer, and the issuer that signs with it.
const issuingCA = "my-issuing"

// userBelowAnIntermediate: brokers trust the root alone, so that a client presents the intermediate, too, whatever form it reads its
// certificate in.
func userBelowAnIntermediate(s *stage) {
	s.withIssuedUsers(map[string]any{"accessOperator": map[string]any{"enabled": true}})
	s.step("an intermediate signs", s.applyIntermediate)
	manifest := s.besideOneNode()
	s.must(manifest.Set("Kafka", clusterName, usersOf(issuingCA), "spec", "clientsCa"))
	s.apply(manifest)
	s.must(s.kube.Apply(s.ctx, s.kafka.Namespace, s.example("application/user.yaml")))
	access := &accessv1alpha1.KafkaAccess{ObjectMeta: s.meta(applicationName), Spec: accessv1alpha1.KafkaAccessSpec{
		Kafka:  accessv1alpha1.KafkaReference{Name: clusterName},
		User:   &accessv1alpha1.KafkaUserReference{Kind: kafkav1.KindKafkaUser, APIGroup: kafkav1.GroupVersion.Group, Name: userName},
		PKCS12: new(true),
	}}
	s.must(s.kube.Create(s.ctx, access))
	s.step("the access is ready", func() error {
		return s.untilObject(&accessv1alpha1.KafkaAccessList{}, applicationName, accessReady)
	})
	chain, err := pki.ParseChain(s.secret(userName).Data["user.crt"])
	s.must(err)
	if len(chain) != 2 || chain[1].Subject.CommonName != issuingCA {
		s.Errorf("user.crt has %d certificates, want that of the user and that of the intermediate", len(chain))
	}
	address := string(s.secret(applicationName).Data["bootstrap.servers"])
	for _, form := range []harness.Keystore{harness.PEM, harness.PKCS12} {
		s.step("a JVM connects with "+string(form), func() error { return s.kafka.Connects(s.ctx, applicationName, address, form) })
	}
}

func (s *stage) applyIntermediate() error {
	certificate, issuer := s.kafka.Of("Certificate", issuingCA), s.kafka.Of("Issuer", issuingCA)
	certificate.Object["spec"] = map[string]any{
		"isCA": true, "commonName": issuingCA, "secretName": issuingCA, "duration": "8760h",
		"privateKey": map[string]any{"algorithm": "ECDSA", "size": int64(256), "rotationPolicy": "Never"},
		"usages":     []any{"cert sign", "crl sign"},
		"issuerRef":  map[string]any{"name": "my-issuer"},
	}
	issuer.Object["spec"] = map[string]any{"ca": map[string]any{"secretName": issuingCA}}
	for _, object := range []*unstructured.Unstructured{certificate, issuer} {
		if err := s.kube.Create(s.ctx, object); err != nil {
			return err
		}
	}
	return nil
}
