package apitest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Somebody else's object stands where one of the cluster's own should.

func foreignSecret(name string) client.Object {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"theirs": []byte("x")}}
}

// strangersAtOurNames are objects of others, by what they are.
func strangersAtOurNames() map[string]client.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	return map[string]client.Object{
		"Secret my-cluster-ca":             foreignSecret("my-cluster-ca"),
		"Secret my-clients-ca-cert":        foreignSecret("my-clients-ca-cert"),
		"Secret my-cluster-operator-certs": foreignSecret("my-cluster-operator-certs"),
		"Secret my-dual-1":                 foreignSecret("my-dual-1"),
		"ConfigMap my-dual-1":              &corev1.ConfigMap{ObjectMeta: named("my-dual-1")},
		"ConfigMap my-trust":               &corev1.ConfigMap{ObjectMeta: named("my-trust")},
		"ConfigMap my-disruption":          &corev1.ConfigMap{ObjectMeta: named("my-disruption")},
		"ServiceAccount my-kafka":          &corev1.ServiceAccount{ObjectMeta: named("my-kafka")},
		"PodDisruptionBudget my-kafka":     &policyv1.PodDisruptionBudget{ObjectMeta: named("my-kafka")},
		"NetworkPolicy my-network-policy-kafka": &networkingv1.NetworkPolicy{
			ObjectMeta: named("my-network-policy-kafka"), Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}},
		},
		"Service my-kafka-brokers": &corev1.Service{
			ObjectMeta: named("my-kafka-brokers"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
		},
		"PersistentVolumeClaim data-my-dual-1": &corev1.PersistentVolumeClaim{
			ObjectMeta: named("data-my-dual-1"), Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		"StrimziPodSet my-dual": &podsetv1.StrimziPodSet{
			ObjectMeta: named("my-dual"), Spec: podsetv1.StrimziPodSetSpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"theirs": "true"}}, Pods: []runtime.RawExtension{}},
		},
	}
}

// onClaims is a cluster of three nodes that keep their data in claims.
func (w *world) onClaims() (*kafkav1.Kafka, *kafkav1.KafkaNodePool) {
	pool := poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker)
	pool.Spec.Storage = kafkav1.Storage{Type: "persistent-claim", Volume: kafkav1.Volume{Size: "1Gi"}}
	return kafkaResource(w.namespace), pool
}

// wantForeign checks that the cluster says whose object is in its way, once, and comes to
// rest with that.
func (w *world) wantForeign(name string) {
	w.t.Helper()
	w.wantCondition(condition.NotReady, name, "not touched")
	if reason := w.getKafka().Status.Conditions; !slices.ContainsFunc(reason, func(c condition.Condition) bool { return c.Reason == "ForeignObject" }) {
		w.t.Errorf("conditions are %+v", reason)
	}
	writes := w.faulty.Written
	w.run(10)
	if w.faulty.Written != writes {
		w.t.Errorf("%d objects were written beside it", w.faulty.Written-writes)
	}
	told := slices.DeleteFunc(slices.Clone(w.events.reasons), func(reason string) bool { return reason != "ForeignObject" })
	if len(told) != 1 {
		w.t.Errorf("%d events tell of it, want one", len(told))
	}
}

// untouched reports whether an object is the very one it was.
func (w *world) untouched(object client.Object) bool {
	w.t.Helper()
	version := object.GetResourceVersion()
	w.get(object.GetName(), object)
	return object.GetResourceVersion() == version
}

func TestAnObjectOfSomebodyElseIsNeitherWrittenNorAdoptedAndHoldsTheClusterBack(t *testing.T) {
	t.Parallel()
	for name, object := range strangersAtOurNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			object.SetNamespace(w.namespace)
			w.create(object)
			kafka, pool := w.onClaims()
			w.create(kafka, pool)

			w.run(5)

			w.wantForeign(name)
			if !w.untouched(object) {
				t.Errorf("%s was written: %v", name, object.GetManagedFields())
			}
			if pods := w.podUIDs(); len(pods) > 0 {
				t.Errorf("pods %v were made beside it", pods)
			}

			w.patch(object, object.GetName(), map[string]any{"metadata": map[string]any{"finalizers": nil}}) // nobody protects claims here
			w.delete(object, object.GetName())
			w.settle()
			w.wantReady()
		})
	}
}

func TestARunningClusterGoesOnWhileSomebodyElsesObjectIsInTheWayOfAnotherNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.create(poolResource(w.namespace, "more", 1, kafkav1.RoleBroker))
	w.settle()
	object := foreignSecret("my-more-4")
	object.SetNamespace(w.namespace)
	w.create(object)
	before, leaf := w.podUIDs(), w.leafOf("my-dual-0")

	w.scale("more", 2)
	w.run(5)

	w.wantForeign("Secret my-more-4")
	w.clock.SetTime(nearTheEnd())
	w.run(20)
	if w.leafOf("my-dual-0").Equal(leaf) {
		t.Error("a certificate that is due is not renewed")
	}
	if after := w.podUIDs(); !maps.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after)
	}
	if !w.untouched(object) {
		t.Errorf("it was written: %v", object.GetManagedFields())
	}
	w.delete(object, "my-more-4")
	w.settle()
	w.wantReady()
	if _, there := w.podUIDs()["my-more-4"]; !there {
		t.Error("the node did not come")
	}
}

func TestWhoseLabelIsTakenOffAnObjectOfTheClusterIsStillTheClusters(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]client.Object{
		"my-cluster-ca":             &corev1.Secret{},
		"my-cluster-ca-cert":        &corev1.Secret{},
		"my-cluster-operator-certs": &corev1.Secret{},
		"my-dual-1":                 &corev1.Secret{},
		"my-dual-2":                 &corev1.ConfigMap{},
		"my-kafka-brokers":          &corev1.Service{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			pods := w.podUIDs()

			w.patch(object, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"strimzi.io/cluster": nil}}})
			w.settle()

			w.wantReady()
			w.get(name, object)
			if object.GetLabels()["strimzi.io/cluster"] != clusterName || !maps.Equal(pods, w.podUIDs()) {
				t.Errorf("labels are %v, pods %v", object.GetLabels(), w.podUIDs())
			}
		})
	}
}

func TestASecretThatAListenerRefersToIsNotTheClustersToDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka, pool := w.onClaims()
	kafka.Name, pool.Name, pool.Labels["strimzi.io/cluster"] = "other", "theirs", "other"
	w.create(kafka, pool)
	for range 4 {
		if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key("other")}); err != nil {
			t.Fatal(err)
		}
	}
	var node corev1.Secret
	w.get("other-theirs-0", &node)

	mine := kafkaResource(w.namespace)
	mine.Spec.Kafka.Listeners[1].Configuration = &kafkav1.ListenerConfiguration{BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{
		SecretName: node.Name, Certificate: node.Name + ".crt", Key: node.Name + ".key",
	}}
	w.create(mine, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.run(6)

	if !w.untouched(&node) || node.DeletionTimestamp != nil {
		t.Error("the Secret of the other cluster's node was touched")
	}
}

// strimziPodSet is a pod set as Strimzi's operator leaves it.
func (w *world) strimziPodSet(kafka *kafkav1.Kafka) *podsetv1.StrimziPodSet {
	w.t.Helper()
	raw, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "my-dual-0", Labels: map[string]string{"strimzi.io/cluster": clusterName},
		Annotations: map[string]string{"strimzi.io/revision": "1", "strimzi.io/cluster-ca-cert-generation": "0"},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return &podsetv1.StrimziPodSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "my-dual", Namespace: w.namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: kafka.Name, UID: kafka.UID}},
		},
		Spec: podsetv1.StrimziPodSetSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"strimzi.io/cluster": clusterName}},
			Pods:     []runtime.RawExtension{{Raw: raw}},
		},
	}
}

func TestAClusterOfAnotherOperatorIsNotTouched(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(w *world, kafka *kafkav1.Kafka) client.Object{
		"StrimziPodSet my-dual": func(w *world, kafka *kafkav1.Kafka) client.Object { return w.strimziPodSet(kafka) },
		"Secret my-dual-0": func(w *world, _ *kafkav1.Kafka) client.Object {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "my-dual-0", Namespace: w.namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName}},
				Data:       map[string][]byte{"my-dual-0.crt": []byte("x"), "my-dual-0.key": []byte("x")},
			}
		},
		"StrimziPodSet my-dual, without pods": func(w *world, kafka *kafkav1.Kafka) client.Object {
			set := w.strimziPodSet(kafka)
			set.Spec.Pods = []runtime.RawExtension{}
			return set
		},
		"StrimziPodSet my-dual, without a label": func(w *world, kafka *kafkav1.Kafka) client.Object {
			set := w.strimziPodSet(kafka)
			set.Labels = nil
			return set
		},
		"ConfigMap my-dual-0": func(w *world, kafka *kafkav1.Kafka) client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: "my-dual-0", Namespace: w.namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName},
				OwnerReferences: w.strimziPodSet(kafka).OwnerReferences,
			}}
		},
		"Pod my-dual-0": func(w *world, _ *kafkav1.Kafka) client.Object {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "my-dual-0", Namespace: w.namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kafka", Image: "kafka"}}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kafka := kafkaResource(w.namespace)
			w.create(kafka)
			object := made(w, kafka)
			w.create(object, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))

			w.run(10)

			what, _, _ := strings.Cut(name, ",")
			w.wantCondition(condition.NotReady, what, "another operator")
			if result, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key(clusterName)}); err != nil || result.RequeueAfter != 30*time.Second {
				t.Errorf("the next look is in %s, %v", result.RequeueAfter, err)
			}
			var secrets corev1.SecretList
			var configs corev1.ConfigMapList
			w.list(&secrets)
			w.list(&configs)
			made := len(secrets.Items) + len(configs.Items) + len(w.podUIDs())
			if !w.untouched(object) || made > 1 || w.faulty.Written > 1 {
				t.Errorf("untouched: %t, %d Secrets, ConfigMaps and pods, %d writes, want one that says so", w.untouched(object), made, w.faulty.Written)
			}
		})
	}
}

// Whoever may write pod sets runs no pods of his own by the operator's rights, also not
// in the name of a Kafka that lives.
func TestPodsOfASetThatSomebodyElseWroteAreNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.podUIDs()
	forged := w.strimziPodSet(w.getKafka())
	forged.Name = "my-forged"
	forged.Spec.Pods[0].Raw = []byte(`{"metadata": {"name": "my-forged-9"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`)
	w.create(forged)

	w.run(5)

	if after := w.podUIDs(); !maps.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after)
	}
	if !w.untouched(forged) {
		t.Errorf("the set was written: %+v", forged.Status)
	}
}
