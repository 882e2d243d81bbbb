package apitest

import (
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// A user replaces the CA of their own. The Secrets are theirs, and are not written.

// corporate is a running cluster with a CA of the user's.
func corporate(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	return corporateFor(t, 1000*authority.Day)
}

func corporateFor(t *testing.T, validity time.Duration) (*world, pki.Authority) {
	t.Helper()
	w := newWorld(t)
	ca := caNamed(t, "corporate one", validity)
	w.corporate(ca, 3)
	w.settle()
	return w, ca
}

// corporate asks for a cluster with a CA of the user's.
func (w *world) corporate(ca pki.Authority, replicas int32) {
	w.t.Helper()
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClusterCa.GenerateCertificateAuthority = new(false)
	w.createCA(authorities.Cluster, ca, "0")
	w.create(kafka, poolResource(w.namespace, "dual", replicas, kafkav1.RoleController, kafkav1.RoleBroker))
}

// replaceOwn puts another CA into the user's Secrets, with the entries beside it.
func (w *world) replaceOwn(ca pki.Authority, generation string, beside map[string][]byte) {
	w.t.Helper()
	data := map[string]any{authority.CertKey: pki.EncodeBundle(ca.Certificate())}
	for key, text := range beside {
		data[key] = text
	}
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": asked})
	w.patch(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{authorities.CertGenerationAnnotation: generation}}, "data": data,
	})
	w.patch(&corev1.Secret{}, "my-cluster-ca", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{authorities.KeyGenerationAnnotation: generation}},
		"data":     map[string]any{authority.KeyKey: ca.Key().PEM()},
	})
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": nil})
}

func TestAUsersNewKeyWithTheOldCertificateBesideIt(t *testing.T) {
	t.Parallel()
	w, old := corporate(t)
	// Who reads ca.crt alone finds what the user has put there.
	w.without[readsBundle], w.without[readsFirst] = true, true
	dated := authority.DatedCertKey(old.Certificate())

	w.replaceOwn(caNamed(t, "corporate two", 1000*authority.Day), "1", map[string][]byte{dated: pki.EncodeBundle(old.Certificate())})
	w.settle()

	w.wantOwn("corporate two")
	w.wantRestarts(2)
	w.wantReason("ClusterCATrust", "WaitingForOwner", "remove "+dated+" of Secret my-cluster-ca-cert")
	w.wantReady()

	w.dropData("my-cluster-ca-cert", dated)
	w.settle()

	w.wantReason("ClusterCATrust", "Trusted")
}

func TestAUsersNewKeyWithoutTheOldCertificate(t *testing.T) {
	t.Parallel()
	w, _ := corporate(t)
	// Applications know what the user tells them, and nodes present what they did
	// until all nodes trust the new CA.
	w.nobodyReads()

	w.replaceOwn(caNamed(t, "corporate two", 1000*authority.Day), "1", nil)
	w.settle()

	w.wantOwn("corporate two")
	w.wantRestarts(2)
}

// wantOwn checks that the nodes present and trust the CA alone. The states tell the
// same, except that an entry that the user keeps stays, trusted by nobody.
func (w *world) wantOwn(ca string) {
	w.t.Helper()
	w.wantRoles(" replication-9091", "presents "+ca+", trusts "+ca)
	w.wantRoles(" controlplane-9090", "presents "+ca+", trusts "+ca)
	if state := w.anchors(authorities.Cluster)[ca]; state != trust.InUseAll {
		w.t.Errorf("anchors are %v", w.anchors(authorities.Cluster))
	}
}

func TestAUsersRenewalWithTheSameKeyRestartsNothing(t *testing.T) {
	t.Parallel()
	w, _ := corporate(t)
	w.pin()

	w.renewOwn()
	w.settle()

	w.wantOwn("corporate one")
	w.wantRestarts(0)
	want := fingerprints([]*x509.Certificate{w.caCertificate(authorities.Cluster)})
	for _, s := range w.servers {
		if got := fingerprints(s.loaded["replication-9091"].trust); len(got) != 1 || got[0] != want[0] {
			t.Errorf("%s trusts %v, want the renewed certificate", s.pod, got)
		}
	}
}

// Restarts do not help while leaves end with the CA, and are due at once when it has
// been renewed.
func TestAUsersAuthorityNearItsEndRestartsNobodyUntilItIsRenewed(t *testing.T) {
	t.Parallel()
	w, ca := corporateFor(t, 3*authority.Day)
	w.nobodyReads()
	w.clock.SetTime(start().Add(2 * authority.Day))
	w.settle()
	w.wantRestarts(0)

	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 1000*authority.Day, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.replaceOwn(renewed, "1", nil)
	w.settle()

	w.wantRestarts(1)
	w.clock.SetTime(start().Add(4 * authority.Day))
	w.settle()
	w.wantRestarts(1)
	w.wantOwn("corporate one")
}

func TestAUsersChangeWithoutARaisedGenerationIsSeenAllTheSame(t *testing.T) {
	t.Parallel()
	w, old := corporate(t)
	w.without[readsBundle], w.without[readsFirst] = true, true

	w.replaceOwn(caNamed(t, "corporate two", 1000*authority.Day), "0", map[string][]byte{
		authority.DatedCertKey(old.Certificate()): pki.EncodeBundle(old.Certificate()),
	})
	w.settle()

	w.wantOwn("corporate two")
}

func TestAClusterIsHandedFromItsOwnAuthorityToTheUsers(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.handToUser(caNamed(t, "corporate", 1000*authority.Day))
	w.settle()

	w.wantOwn("corporate")
	w.wantRestarts(2)
}

// handToUser makes the cluster CA one that the user brings.
func (w *world) handToUser(ca pki.Authority) {
	w.t.Helper()
	w.classic()
	w.without[readsBundle] = true
	old := w.caCertificate(authorities.Cluster)
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": asked})
	w.generate(false)
	w.replaceOwn(ca, "1", map[string][]byte{authority.DatedCertKey(old): pki.EncodeBundle(old)})
}

// generate says whether the operator makes the cluster CA.
func (w *world) generate(itself bool) {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{"generateCertificateAuthority": itself}}})
}

func TestAClusterIsHandedBackFromTheUsersAuthority(t *testing.T) {
	t.Parallel()
	w, _ := corporate(t)
	w.pin()

	w.generate(true)
	w.settle()
	w.wantRestarts(0)

	w.replace(authorities.Cluster)
	w.settle()
	w.restartEach()

	w.wantAlone(nextV)
}

func TestAForeignKeyChangesNothingInTheMiddleEither(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.lag["my-dual-1"] = 2
	key := w.secret("my-cluster-ca").Data[authority.KeyKey]
	w.replace(authorities.Cluster)
	w.once(w.trusts(1, nextV), func() { w.replaceData("my-cluster-ca", authority.KeyKey, newCA(t).Key().PEM()) })
	w.run(12)

	w.wantInvalid("my-cluster-ca")
	if w.presents(1, nextV)() {
		t.Error("leaves were switched although the key is somebody else's")
	}

	w.replaceData("my-cluster-ca", authority.KeyKey, key)
	w.settle()

	w.wantRemainder(firstV, nextV)
}
