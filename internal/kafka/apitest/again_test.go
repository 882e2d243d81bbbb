package apitest

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// A Kafka that is made again trusts what the Secrets of its authorities say.

func TestAKafkaThatIsMadeAgainServesTheUsersOfRetiredAuthorities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClientsCa.GenerateSecretOwnerReference = new(false)
	kafka.Spec.ClusterCa.GenerateSecretOwnerReference = new(false)
	pool := poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker)
	w.create(kafka, pool)
	w.settle()
	w.replace(authorities.Clients)
	w.settle()

	w.deleteCluster()
	again := kafkaResource(w.namespace)
	again.Spec = kafka.Spec
	w.create(again, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()

	if len(w.users) != 2 {
		t.Fatalf("%d users, want one of each authority", len(w.users))
	}
	w.wantUsersOf("clients-ca v0", "clients-ca v1")
	if got := w.caCertificate(authorities.Clients).Subject.CommonName; got != "clients-ca v1" {
		t.Errorf("users are issued certificates of %s", got)
	}
}

func TestNothingIsRememberedOfADeletedKafka(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	if w.reconciler.Remembered() == 0 {
		t.Fatal("nothing is remembered of a Kafka that is there")
	}

	w.deleteCluster()
	w.run(2)

	if got := w.reconciler.Remembered(); got != 0 {
		t.Errorf("%d things are remembered of a Kafka that is gone", got)
	}
}

func TestAUsersRetiredClientsAuthorityIsTrustedFromTheBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	retired, present := caNamed(t, "corporate one", 900*authority.Day), caNamed(t, "corporate two", 1000*authority.Day)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClientsCa.GenerateCertificateAuthority = new(false)
	w.createCA(authorities.Clients, present, "1")
	w.replaceData("my-clients-ca-cert", authority.DatedCertKey(retired.Certificate()), pki.EncodeBundle(retired.Certificate()))
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()

	w.wantUsersOf("corporate one", "corporate two")
}

// deleteCluster deletes the Kafka, its pools, and what the garbage collector would.
func (w *world) deleteCluster() {
	w.t.Helper()
	kept := []string{}
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		kept = append(kept, kind.KeySecret(clusterName), kind.CertSecret(clusterName))
	}
	w.delete(&kafkav1.Kafka{}, clusterName)
	for _, all := range []client.Object{&kafkav1.KafkaNodePool{}, &podsetv1.StrimziPodSet{}, &corev1.Pod{}, &corev1.ConfigMap{}} {
		options := []client.DeleteAllOfOption{client.InNamespace(w.namespace), client.GracePeriodSeconds(0)}
		if err := w.api.DeleteAllOf(w.t.Context(), all, options...); err != nil {
			w.t.Fatal(err)
		}
	}
	for name := range maps.Clone(w.stored.secrets) {
		if !slices.Contains(kept, name) {
			w.delete(&corev1.Secret{}, name)
		}
	}
	for uid := range maps.Clone(w.servers) {
		w.stop(uid)
	}
	clear(w.ran)
	clear(w.mounted)
	clear(w.persisted)
	w.offers, w.access = nil, nil
	w.startOperator()
}

// wantUsersOf checks whose users every node accepts.
func (w *world) wantUsersOf(authorities ...string) {
	w.t.Helper()
	for _, s := range w.servers {
		if got := slices.Sorted(slices.Values(subjects(s.loaded["mtls-9094"].trust))); !slices.Equal(got, authorities) {
			w.t.Errorf("%s trusts users of %v, want %v", s.pod, got, authorities)
		}
	}
	if len(w.servers) == 0 {
		w.t.Error("no server runs")
	}
}
