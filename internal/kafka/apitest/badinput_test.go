package apitest

import (
	"bytes"
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

// A change that cannot be carried out is named in a condition; what runs goes on
// as it is, with the same pods and the same Secrets.

// badChange is what somebody does to a running cluster, and what the condition
// has to say about it.
type badChange struct {
	do func(w *world)
	// says are words of the one condition that is looked for.
	kind condition.Type
	says []string
}

func TestABadChangeIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]badChange{
		"a version there is no image for": {
			do:   func(w *world) { w.patchKafka(map[string]any{"version": "3.9.0"}) },
			kind: condition.NotReady, says: []string{"3.9.0", "4.3.1"},
		},
		"a listener type that is not supported": {
			do: func(w *world) {
				w.patchKafka(map[string]any{"listeners": []any{map[string]any{"name": "ext", "port": 9096, "type": "nodeport", "tls": true}}})
			},
			kind: condition.NotReady, says: []string{"ext", "nodeport"},
		},
		"an authentication that is not supported": {
			do: func(w *world) {
				w.patchKafka(map[string]any{"listeners": []any{map[string]any{"name": "own", "port": 9096, "type": "internal", "tls": true, "authentication": map[string]any{"type": "custom"}}}})
			},
			kind: condition.NotReady, says: []string{"own", "custom"},
		},
		"an authentication of the older version": {
			do: func(w *world) {
				w.patchKafka(map[string]any{"listeners": []any{map[string]any{"name": "tokens", "port": 9096, "type": "internal", "tls": true, "authentication": map[string]any{"type": "oauth", "validIssuerUri": "https://id"}}}})
			},
			kind: condition.NotReady, says: []string{"tokens", "oauth"},
		},
		"a reference that nothing resolves": {
			do: func(w *world) {
				w.patchKafka(map[string]any{"config": map[string]any{"num.io.threads": "${strimzienv:THREADS}"}})
			},
			kind: condition.NotReady, says: []string{"num.io.threads", "strimzienv"},
		},
		"a pod whose claims shall be deleted": {
			do: func(w *world) {
				w.annotate(&corev1.Pod{}, "my-dual-1", map[string]any{"strimzi.io/delete-pod-and-pvc": "true"})
			},
			kind: condition.Warning, says: []string{"my-dual-1", "strimzi.io/delete-pod-and-pvc"},
		},
		"a CA that is to be replaced, in words that ask for nothing": {
			do: func(w *world) {
				w.annotate(&corev1.Secret{}, authorities.Cluster.KeySecret(clusterName), map[string]any{authorities.ForceReplaceAnnotation: "yes"})
			},
			kind: condition.Warning, says: []string{"Secret my-cluster-ca: ", authorities.ForceReplaceAnnotation, `"yes"`, `set it to "true"`},
		},
		"a CA that is to be distrusted, on the wrong Secret": {
			do: func(w *world) {
				w.annotate(&corev1.Secret{}, authorities.Cluster.CertSecret(clusterName), map[string]any{authority.DistrustAnnotation: "now"})
			},
			kind: condition.Warning, says: []string{"Secret my-cluster-ca-cert: ", "annotate Secret my-cluster-ca with keyturn.dev/distrust=now"},
		},
		"the CA's key does not belong to its certificate": {
			do: func(w *world) {
				w.replaceData(authorities.Cluster.KeySecret(clusterName), authority.KeyKey, newCA(w.t).Key().PEM())
			},
			kind: condition.NotReady, says: []string{"my-cluster-ca-cert", "does not belong"},
		},
		"the CA's certificate is truncated": {
			do: func(w *world) {
				data := w.secret("my-cluster-ca-cert").Data[authority.CertKey]
				w.replaceData("my-cluster-ca-cert", authority.CertKey, data[:len(data)/2])
			},
			kind: condition.NotReady, says: []string{"my-cluster-ca-cert", "ca.crt"},
		},
		"a foreign CA that fits together": {
			do: func(w *world) {
				w.nobodyReads() // what they put there is nobody's
				foreign := newCA(w.t)
				w.replaceData("my-cluster-ca", authority.KeyKey, foreign.Key().PEM())
				w.replaceData("my-cluster-ca-cert", authority.CertKey, pki.EncodeBundle(foreign.Certificate()))
			},
			kind: condition.NotReady, says: []string{"my-cluster-ca", "foreign"},
		},
		"the CA's key is missing in its Secret": {
			do: func(w *world) {
				w.replaceData("my-cluster-ca", "other", []byte("x"))
				w.dropData("my-cluster-ca", authority.KeyKey)
			},
			kind: condition.NotReady, says: []string{"my-cluster-ca", "ca.key"},
		},
		"a maintenance window that cannot be read": {
			do: func(w *world) {
				w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"maintenanceTimeWindows": []any{"every monday"}}})
			},
			kind: condition.Warning, says: []string{"every monday"},
		},
		"another type of storage": {
			do: func(w *world) {
				w.patchPool("dual", map[string]any{"storage": map[string]any{"type": "persistent-claim", "size": "1Gi"}})
			},
			kind: condition.Warning, says: []string{"dual", "storage"},
		},
		"another controller in a running cluster": {
			do:   func(w *world) { w.scale("dual", 4) },
			kind: condition.Warning, says: []string{"controller"},
		},
		"a field that nobody acts on": {
			do:   func(w *world) { w.patchKafka(map[string]any{"rack": map[string]any{"topologyKey": "zone"}}) },
			kind: condition.Warning, says: []string{"spec.kafka.rack"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			before := w.podUIDs()

			change.do(w)
			w.settle()

			w.wantCondition(change.kind, change.says...)
			if after := w.podUIDs(); len(after) != len(before) || len(w.faulty.podsDeleted) > 0 {
				t.Errorf("pods were %v and are %v", before, after)
			}
		})
	}
}

func TestAPoolKeepsItsWarningsWhileTheKafkaCannotBeBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.patchKafka(map[string]any{"version": "3.9.0"})
	w.settle()

	w.patchPool("dual", map[string]any{"storage": map[string]any{"size": "1Gi"}})
	w.settle()

	w.wantCondition(condition.NotReady, "3.9.0")
	var pool kafkav1.KafkaNodePool
	w.get("dual", &pool)
	list := pool.Status.Conditions
	if len(list) != 1 || list[0].Reason != "FieldsWithoutEffect" || !strings.Contains(list[0].Message, "spec.storage.size") {
		t.Errorf("conditions of the pool are %+v", list)
	}
	if len(pool.Status.NodeIds) != 3 {
		t.Errorf("node ids of the pool are %v", pool.Status.NodeIds)
	}
}

func TestAStrangersCAInTheBundleIsTakenOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	own, stranger := w.caCertificate(authorities.Cluster), newCA(w.t).Certificate()

	w.replaceData("my-cluster-ca-cert", authority.CertKey, pki.EncodeBundle(own, stranger))
	w.settle()

	if after := w.secret("my-cluster-ca-cert").Data[authority.CertKey]; !bytes.Equal(after, pki.EncodeBundle(own)) {
		t.Error("the stranger's CA is still published")
	}
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("pods %v were restarted", w.faulty.podsDeleted)
	}
}

func TestAConfigurationKeyOfTheOperatorsIsDroppedAndNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Config["advertised.listeners"] = "x"
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))

	w.settle()

	w.wantCondition(condition.Warning, "advertised.listeners")
	var config corev1.ConfigMap
	w.get("my-dual-0", &config)
	if strings.Contains(config.Data["server.config"], "advertised.listeners=x") {
		t.Error("the key reached the broker")
	}
}

func TestAMissingListenerCertificateIsNamedWithEverythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Listeners[0].Configuration = customCertificate("first")
	kafka.Spec.Kafka.Listeners[1].Configuration = customCertificate("second")
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: w.namespace}})
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))

	w.settle()

	w.wantInvalid("Secret first", "Secret second", "tls.crt", "tls.key")
}

func TestAPoolWithTheLabelOfAnotherClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	other := poolResource(w.namespace, "other", 2, kafkav1.RoleBroker)
	other.Labels["strimzi.io/cluster"] = "somebody-elses"
	w.create(other)

	w.settle()

	if n := len(w.podUIDs()); n != 3 {
		t.Errorf("%d pods, want 3", n)
	}
}

func TestAForeignPodWithOurLabelsIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "my-dual-9", Namespace: w.namespace, Labels: map[string]string{
			"strimzi.io/cluster": clusterName, "strimzi.io/kind": "Kafka", "strimzi.io/name": "my-kafka", "strimzi.io/pool-name": "dual",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}
	w.create(foreign)

	w.settle()

	if _, there := w.podUIDs()["my-dual-9"]; !there {
		t.Error("the foreign pod is gone")
	}
	if !has(w.getKafka(), condition.Ready) {
		t.Error("the cluster is not ready")
	}
}

func TestWhatSomebodyEditsByHandIsPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.patch(&corev1.Service{}, "my-kafka-bootstrap", map[string]any{"spec": map[string]any{"selector": map[string]any{"strimzi.io/cluster": "elsewhere"}}})
	w.patch(&corev1.ConfigMap{}, "my-dual-0", map[string]any{"data": map[string]any{"server.config": "node.id=7"}})
	w.delete(&corev1.Secret{}, "my-cluster-ca-trusted-certs")

	w.settle()

	var service corev1.Service
	w.get("my-kafka-bootstrap", &service)
	if service.Spec.Selector["strimzi.io/cluster"] != clusterName {
		t.Errorf("the Service selects %v", service.Spec.Selector)
	}
	var config corev1.ConfigMap
	w.get("my-dual-0", &config)
	if !strings.Contains(config.Data["server.config"], "node.id=0") {
		t.Error("the ConfigMap is still as edited")
	}
	anchors := authority.StoredAnchors(authority.Stored{Exists: true, Data: w.secret("my-cluster-ca-trusted-certs").Data})
	if len(anchors) != 1 || anchors[0].State != trust.InUseAll {
		t.Errorf("anchors are %+v, want the one there was", anchors)
	}
}

func TestAPausedClusterKeepsItsAuthorityButGetsALostPodBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.caCertificate(authorities.Cluster)
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": "true"})
	w.annotate(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{"strimzi.io/force-renew": "true"})
	w.delete(&corev1.Pod{}, "my-dual-1")

	w.settle()

	w.wantCondition(condition.ReconciliationPaused)
	w.wantReason(clusterTrust, "Paused")
	if pki.FingerprintOf(w.caCertificate(authorities.Cluster)) != pki.FingerprintOf(before) {
		t.Error("the CA was renewed although reconciliation is paused")
	}
	if _, there := w.podUIDs()["my-dual-1"]; !there {
		t.Error("the pod was not made again")
	}
}

func TestAKafkaThatIsPausedBeforeItIsMadeHasOnlyThatToSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Annotations = map[string]string{"strimzi.io/pause-reconciliation": asked}
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))

	w.run(3)

	if list := w.getKafka().Status.Conditions; len(list) != 1 || list[0].Type != condition.ReconciliationPaused {
		t.Errorf("conditions are %+v, want the pause alone", list)
	}
}

func customCertificate(secret string) *kafkav1.ListenerConfiguration {
	return &kafkav1.ListenerConfiguration{BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{
		SecretName: secret, Certificate: "tls.crt", Key: "tls.key",
	}}
}

func newCA(t *testing.T) pki.Authority {
	t.Helper()
	return caNamed(t, "somebody else's", 100*authority.Day)
}

func caNamed(t *testing.T, name string, validity time.Duration) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: validity, Now: start(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func (w *world) patchKafka(spec map[string]any) {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"kafka": spec}})
}

func (w *world) patchPool(name string, spec map[string]any) {
	w.t.Helper()
	w.patch(&kafkav1.KafkaNodePool{}, name, map[string]any{"spec": spec})
}

func (w *world) replaceData(secret, key string, value []byte) {
	w.t.Helper()
	w.patch(&corev1.Secret{}, secret, map[string]any{"data": map[string]any{key: value}})
}

func (w *world) dropData(secret, key string) {
	w.t.Helper()
	w.patch(&corev1.Secret{}, secret, map[string]any{"data": map[string]any{key: nil}})
}

// wantCondition looks for one condition of the kind whose message has all words.
func (w *world) wantCondition(kind condition.Type, words ...string) {
	w.t.Helper()
	for _, c := range w.getKafka().Status.Conditions {
		found := c.Type == kind
		for _, word := range words {
			found = found && strings.Contains(strings.ToLower(c.Message), strings.ToLower(word))
		}
		if found {
			return
		}
	}
	w.t.Errorf("conditions are %+v, want %s that says %v", w.getKafka().Status.Conditions, kind, words)
}
