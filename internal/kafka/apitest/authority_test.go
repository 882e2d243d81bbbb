package apitest

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestTheFirstDeploymentMakesBothAuthoritiesOfGenerationZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	for kind, subject := range map[authorities.Kind]string{
		authorities.Cluster: "CN=cluster-ca v0,O=io.strimzi", authorities.Clients: "CN=clients-ca v0,O=io.strimzi",
	} {
		key, cert := w.secret(kind.KeySecret(clusterName)), w.secret(kind.CertSecret(clusterName))
		if key.Annotations[authorities.KeyGenerationAnnotation] != "0" || cert.Annotations[authorities.CertGenerationAnnotation] != "0" {
			t.Errorf("%s: generations are %v and %v, want 0 and 0", kind, key.Annotations, cert.Annotations)
		}
		ca := w.caCertificate(kind)
		if ca.Subject.String() != subject || ca.MaxPathLen != pki.MaxCrosses {
			t.Errorf("%s: subject %q with path length %d, want %q with %d", kind, ca.Subject, ca.MaxPathLen, subject, pki.MaxCrosses)
		}
		if got := slices.Sorted(maps.Keys(cert.Data)); !slices.Equal(got, []string{"ca.crt", "ca.p12", "ca.password"}) {
			t.Errorf("%s: certificate Secret holds %v", kind, got)
		}
	}
	anchors := authority.StoredAnchors(authority.Stored{Exists: true, Data: w.secret("my-cluster-ca-trusted-certs").Data})
	if len(anchors) != 1 || anchors[0].State != trust.InUseAll {
		t.Errorf("anchors are %+v, want one that is trusted and used by all", anchors)
	}
}

func TestForcedRenewalKeepsTheKeyAndTheStorePasswordAndRestartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.pin()
	before, password := w.caCertificate(authorities.Cluster), w.secret("my-cluster-ca-cert").Data["ca.password"]

	w.renew(authorities.Cluster)
	w.settle()

	after, secret := w.caCertificate(authorities.Cluster), w.secret("my-cluster-ca-cert")
	if pki.KeyIDOf(after) != pki.KeyIDOf(before) || pki.FingerprintOf(after) == pki.FingerprintOf(before) {
		t.Error("want another certificate of the same key")
	}
	if secret.Annotations[authorities.CertGenerationAnnotation] != "1" || secret.Annotations["strimzi.io/force-renew"] != "" {
		t.Errorf("annotations are %v, want generation 1 and the request gone", secret.Annotations)
	}
	if !bytes.Equal(secret.Data["ca.password"], password) {
		t.Error("the password of the store has changed with the certificate")
	}
	w.wantLoaded(after)
	if generation := w.secret("my-dual-0").Annotations[authorities.ClusterCertGenerationAnnotation]; generation != "1" {
		t.Errorf("leaf of generation %s, want 1", generation)
	}
	if n := len(authority.StoredAnchors(authority.Stored{Exists: true, Data: w.secret("my-cluster-ca-trusted-certs").Data})); n != 1 {
		t.Errorf("%d anchors stay, want the renewed one alone", n)
	}
}

func TestALongerValidityRenewsACertificateThatIsNowDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClusterCa.ValidityDays, kafka.Spec.ClusterCa.RenewalDays = new(int32(20)), new(int32(15))
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{"validityDays": 200, "renewalDays": 150}}})
	w.settle()

	want := w.clock.Now().Add(200 * authority.Day)
	for name, end := range map[string]time.Time{
		"CA": w.caCertificate(authorities.Cluster).NotAfter, "leaf": w.leafOf("my-dual-1").NotAfter,
	} {
		if end.Before(want.Add(-time.Hour)) || end.After(want.Add(time.Hour)) {
			t.Errorf("%s ends at %s, want about %s", name, end, want)
		}
	}
}

func TestAnExpiredAuthorityThatWasThereBeforeIsRenewedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expired := expiredCA(t)
	w.createCA(authorities.Cluster, expired, "0")
	w.dualRole(3)

	w.settle()

	renewed := w.caCertificate(authorities.Cluster)
	if pki.KeyIDOf(renewed) != pki.KeyIDOf(expired.Certificate()) || !renewed.NotAfter.After(w.clock.Now()) {
		t.Errorf("the CA ends at %s", renewed.NotAfter)
	}
	if !has(w.getKafka(), condition.Ready) {
		t.Error("the cluster is not ready")
	}
}

// expiredCA is a cluster CA of the operator's that ended before the test begins.
func expiredCA(t *testing.T) pki.Authority {
	t.Helper()
	expired, err := pki.NewCA(pki.CASpec{
		Subject:  pki.Subject{Organization: "io.strimzi", CommonName: "cluster-ca v0"},
		Key:      pki.DefaultCAKey(pki.ECDSA),
		Validity: 24 * time.Hour, Now: start().Add(-30 * 24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return expired
}

func TestLostCertificateSecretsAreRestoredFromWhatPodsMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.caCertificate(authorities.Cluster)
	w.delete(&corev1.Secret{}, "my-cluster-ca-cert")
	w.delete(&corev1.Secret{}, "my-clients-ca-cert")

	w.settle()

	if !w.caCertificate(authorities.Cluster).Equal(before) {
		t.Error("the certificate is another one")
	}
	for _, name := range []string{"my-cluster-ca-cert", "my-clients-ca-cert"} {
		if got := w.secret(name).Annotations[authorities.CertGenerationAnnotation]; got != "0" {
			t.Errorf("%s has generation %s, want still 0", name, got)
		}
	}
	w.wantRestarts(0)
	if !has(w.getKafka(), condition.Ready) {
		t.Error("the cluster is not ready")
	}
}

func TestAuthoritySecretsStayWithoutAnOwnerWhenAskedTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClusterCa.GenerateSecretOwnerReference = new(false)
	kafka.Spec.ClientsCa.GenerateSecretOwnerReference = new(false)
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()

	var secrets corev1.SecretList
	w.list(&secrets)
	for i := range secrets.Items {
		name := secrets.Items[i].Name
		stays := slices.Contains([]string{"my-cluster-ca", "my-cluster-ca-cert", "my-clients-ca", "my-clients-ca-cert"}, name)
		if owned := len(secrets.Items[i].OwnerReferences) > 0; owned == stays {
			t.Errorf("Secret %s: owned is %t", name, owned)
		}
	}
}

func TestSwitchingStoresOffRemovesThemAndOnAddsThemWithoutARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	pods := w.podUIDs()

	for _, step := range []struct {
		stores authority.StoreGeneration
		want   int
	}{{authority.WithoutStores, 1}, {authority.WithStores, 3}} {
		w.stores = step.stores
		w.startOperator()
		w.settle()
		if got := len(w.secret("my-cluster-ca-cert").Data); got != step.want {
			t.Errorf("%s: %d keys in the Secret, want %d", step.stores, got, step.want)
		}
	}
	if !maps.Equal(pods, w.podUIDs()) {
		t.Error("a pod was restarted")
	}
}

func TestAUsersAuthorityThatIsNotThereIsNamedAndNothingIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClusterCa.GenerateCertificateAuthority = new(false)
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))

	w.settle()

	w.wantInvalid("my-cluster-ca", "my-cluster-ca-cert")
	var secrets corev1.SecretList
	w.list(&secrets)
	if len(secrets.Items) != 0 {
		t.Errorf("%d Secrets were made", len(secrets.Items))
	}
}

func TestARaisedGenerationOfAUsersAuthorityThatStaysIsToldAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClusterCa.GenerateCertificateAuthority = new(false)
	w.createCA(authorities.Cluster, caNamed(t, "corporate", 1000*authority.Day), "0")
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	leaf := w.leafOf("my-dual-0")

	w.annotate(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{authorities.CertGenerationAnnotation: "1"})
	before := w.secret("my-cluster-ca-cert").ResourceVersion
	w.settle()

	if !w.leafOf("my-dual-0").Equal(leaf) {
		t.Error("the leaf is another one, and the CA has not changed")
	}
	var pod corev1.Pod
	w.get("my-dual-0", &pod)
	for name, told := range map[string]string{
		"Secret": w.secret("my-dual-0").Annotations[authorities.ClusterCertGenerationAnnotation],
		"pod":    pod.Annotations[authorities.ClusterCertGenerationAnnotation],
	} {
		if told != "1" {
			t.Errorf("the %s of my-dual-0 tells generation %q, want 1", name, told)
		}
	}
	w.wantLoaded(w.caCertificate(authorities.Cluster))
	if after := w.secret("my-cluster-ca-cert").ResourceVersion; after != before {
		t.Error("the user's Secret was written")
	}
}

func TestAUsersChainIsPublishedWhenItIsInOrderAndRefusedWhenNot(t *testing.T) {
	t.Parallel()
	root, issuing := caNamed(t, "root", 1000*authority.Day), caNamed(t, "issuing", 1000*authority.Day)
	intermediate, err := pki.CrossSign(root, issuing.Certificate(), start())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		good  bool
	}{
		"the issuing CA first": {bundle(intermediate, root.Certificate()), true},
		"the root first":       {bundle(root.Certificate(), intermediate), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kafka := kafkaResource(w.namespace)
			kafka.Spec.ClusterCa.GenerateCertificateAuthority = new(false)
			w.createCA(authorities.Cluster, issuing, "0")
			w.replaceData("my-cluster-ca-cert", authority.CertKey, pki.EncodeBundle(c.chain...))
			w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))

			w.settle()

			if !c.good {
				w.wantInvalid("my-cluster-ca-cert", "out of order")
				return
			}
			presented, err := pki.ParseBundle(w.secret("my-dual-0").Data["my-dual-0.crt"])
			if err != nil {
				t.Fatal(err)
			}
			if err := pki.Verify(presented, bundle(root.Certificate()), w.clock.Now()); err != nil {
				t.Errorf("who trusts the root refuses the node: %v", err)
			}
		})
	}
}

func bundle(certificates ...*x509.Certificate) []*x509.Certificate { return certificates }

// What tests look at.

func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	var secret corev1.Secret
	w.get(name, &secret)
	return &secret
}

func (w *world) caCertificate(kind authorities.Kind) *x509.Certificate {
	w.t.Helper()
	return w.first(w.secret(kind.CertSecret(clusterName)).Data[authority.CertKey])
}

func (w *world) leafOf(pod string) *x509.Certificate {
	w.t.Helper()
	return w.first(w.secret(pod).Data[pod+".crt"])
}

func (w *world) first(bundle []byte) *x509.Certificate {
	w.t.Helper()
	cert, err := pki.FirstCertificate(bundle)
	if err != nil {
		w.t.Fatal(err)
	}
	return cert
}

func (w *world) podUIDs() map[string]string {
	w.t.Helper()
	var pods corev1.PodList
	w.list(&pods)
	uids := map[string]string{}
	for i := range pods.Items {
		uids[pods.Items[i].Name] = string(pods.Items[i].UID)
	}
	return uids
}

// wantLoaded checks that every server presents the leaf that its Secret holds and
// trusts the CA, and that none was restarted for it.
func (w *world) wantLoaded(ca *x509.Certificate) {
	w.t.Helper()
	for _, s := range w.servers {
		loaded := s.loaded["replication-9091"]
		if !loaded.chain[0].Equal(w.leafOf(s.pod)) {
			w.t.Errorf("%s presents another leaf than its Secret holds", s.pod)
		}
		if !slices.ContainsFunc(loaded.trust, ca.Equal) {
			w.t.Errorf("%s does not trust the CA of ca.crt", s.pod)
		}
	}
	w.wantRestarts(0)
}

// wantInvalid looks for a refusal whose message has all words.
func (w *world) wantInvalid(names ...string) {
	w.t.Helper()
	for _, c := range w.getKafka().Status.Conditions {
		if c.Type != condition.NotReady || c.Reason != "InvalidResourceException" {
			continue
		}
		for _, name := range names {
			if !strings.Contains(c.Message, name) {
				w.t.Errorf("the message %q does not name %s", c.Message, name)
			}
		}
		return
	}
	w.t.Errorf("conditions are %+v, want NotReady because of InvalidResourceException", w.getKafka().Status.Conditions)
}

func (w *world) createCA(kind authorities.Kind, ca pki.Authority, generation string) {
	w.t.Helper()
	labels := map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/kind": "Kafka"}
	w.create(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: kind.KeySecret(clusterName), Namespace: w.namespace, Labels: labels,
				Annotations: map[string]string{authorities.KeyGenerationAnnotation: generation},
			},
			Data: map[string][]byte{authority.KeyKey: ca.Key().PEM()},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: kind.CertSecret(clusterName), Namespace: w.namespace, Labels: labels,
				Annotations: map[string]string{authorities.CertGenerationAnnotation: generation},
			},
			Data: map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())},
		},
	)
}
