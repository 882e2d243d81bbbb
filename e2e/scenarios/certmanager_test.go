package scenarios

import (
	"crypto/tls"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

// The names of the example of cert-manager.
const (
	issuersCA     = "my-ca"
	issuersCACert = "my-ca-cert"
)

// createdByCertManager: a cluster comes up whose certificates an issuer of kind CA issues, and
// the only key of its CA in the namespace is that of the issuer.
func createdByCertManager(s *stage) {
	s.onIssuer()
	s.underLoad(harness.EveryKind()...)
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 0)

	trusted := s.secret(issuersCACert)
	s.presentedBy(trusted)
	s.same("applications trust the issuer's CA", trusted, s.secret(clusterCACert), "ca.crt")
	s.noKeyOf(trusted)
	s.certificatesOfTheKafka(leaves())
}

// onIssuer makes a cluster whose certificates the issuer of the example issues.
func (s *stage) onIssuer() {
	s.Helper()
	s.fromScratch()
	s.installWith(map[string]any{"featureGates": []string{"+CertManagerCaType"}})
	s.step("the issuer's CA is there", s.applyIssuer)
	manifest := s.example("certmanager/kafka.yaml")
	s.must(small(manifest))
	s.apply(manifest)
}

// operatorLeaf is the Secret with the certificate of the operator.
const operatorLeaf = clusterName + "-cluster-operator-certs"

// leaves are the Secrets of all certificates that are issued for the cluster.
func leaves() []string { return append(nodes("dual-role", 0, 1, 2), operatorLeaf) }

// applyIssuer does what the head of the example's file says.
func (s *stage) applyIssuer() error { return s.kafka.ApplyIssuer(s.ctx, issuersCA, issuersCACert) }

// nextPrivateKey labels the Secrets in which cert-manager makes keys. It can leave one behind.
const nextPrivateKey = "cert-manager.io/next-private-key"

// noKeyOf holds that the key of a CA is in the Secret of the issuer and in no other, under whatever name, but for those in
// which cert-manager has made it.
func (s *stage) noKeyOf(trusted *corev1.Secret) {
	s.Helper()
	secrets := &corev1.SecretList{}
	s.must(s.kube.List(s.ctx, secrets, client.InNamespace(s.kafka.Namespace)))
	var holders []string
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Name == clusterCA {
			s.Errorf("Secret %s exists, although the CA is the issuer's", clusterCA)
		}
		if secret.Labels[nextPrivateKey] == "" && holdsKeyOf(secret, trusted.Data["ca.crt"]) {
			holders = append(holders, secret.Name)
		}
	}
	if !slices.Equal(holders, []string{issuersCA}) {
		s.Errorf("the key of the CA is in Secrets %q, to be in is %s alone", holders, issuersCA)
	}
}

func holdsKeyOf(secret *corev1.Secret, certificate []byte) bool {
	for _, data := range secret.Data {
		if _, err := tls.X509KeyPair(certificate, data); err == nil {
			return true
		}
	}
	return false
}

// certificatesOfTheKafka: there is a Certificate with each of the names and no other beside that of the issuer's CA,
// and the Kafka owns each, and the Secret with the key that it fills.
func (s *stage) certificatesOfTheKafka(names []string) {
	s.Helper()
	resource, err := s.kafka.Resource(s.ctx)
	s.must(err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateList"})
	s.must(s.kube.List(s.ctx, list, client.InNamespace(s.kafka.Namespace)))
	var found []string
	for i := range list.Items {
		certificate := &list.Items[i]
		if certificate.GetName() == issuersCA {
			continue
		}
		found = append(found, certificate.GetName())
		for _, object := range []client.Object{certificate, s.secret(certificate.GetName() + "-cm")} {
			if !ownedBy(object, resource) {
				s.Errorf("%T %s is not owned by the Kafka, but by %v", object, object.GetName(), object.GetOwnerReferences())
			}
		}
	}
	slices.Sort(names)
	slices.Sort(found)
	if !slices.Equal(names, found) {
		s.Errorf("Certificates are %q, to be there are %q", found, names)
	}
}

func ownedBy(object client.Object, kafka *kafkav1.Kafka) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.Kind == kafkav1.KindKafka && reference.UID == kafka.UID
	})
}
