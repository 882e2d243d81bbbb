package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// labelsOf are those that proposal 100 shows on what belongs to a component.
func labelsOf(component, name string, more ...string) map[string]string {
	labels := map[string]string{
		"app.kubernetes.io/instance": clusterName, "app.kubernetes.io/managed-by": "strimzi-cluster-operator",
		"app.kubernetes.io/name": component, "app.kubernetes.io/part-of": "strimzi-" + clusterName,
		"strimzi.io/cluster": clusterName, "strimzi.io/component-type": component, "strimzi.io/kind": "Kafka", "strimzi.io/name": name,
	}
	return with(labels, more...)
}

// with adds keys and values, in turn, to what is there.
func with(values map[string]string, more ...string) map[string]string {
	all := maps.Clone(values)
	if all == nil {
		all = map[string]string{}
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func annotated(pairs ...string) map[string]string { return with(nil, pairs...) }

// Labels of the components of a cluster.
func ofNodes(more ...string) map[string]string {
	return labelsOf("kafka", clusterName+"-kafka", more...)
}
func ofAuthority() map[string]string      { return labelsOf("certificate-authority", "strimzi") }
func ofOperator() map[string]string       { return labelsOf("strimzi", "strimzi") }
func ofEntityOperator() map[string]string { return labelsOf("entity-operator", entityOperatorName) }

// Annotations of Secrets, as proposals 076 and 100 list them.
func certGeneration() []string { return []string{"strimzi.io/ca-cert-generation", "0"} }
func keyGeneration() []string  { return []string{"strimzi.io/ca-key-generation", "0"} }

// copied are those of certificates that were copied from a Secret of a user.
func copied() map[string]string {
	return annotated(append(append(certGeneration(), keyGeneration()...), "strimzi.io/ca-cert-hash", kubetest.Any)...)
}

// nodeMarks are those of every cluster with so many nodes, whatever its issuer. leaf are annotations of the Secrets
// with certificates of the cluster CA.
func nodeMarks(nodes int, leaf ...string) map[string]kubetest.Marks {
	pooled := ofNodes("strimzi.io/pool-name", "dual")
	bundle := annotated("keyturn.dev/application", kubetest.Any, "keyturn.dev/application-since", kubetest.Any)
	issued := annotated(append(leaf, "strimzi.io/cluster-ca-cert-generation", "0")...)
	rows := map[string]kubetest.Marks{
		"Kafka my":                              {},
		"KafkaNodePool dual":                    {Labels: annotated("strimzi.io/cluster", clusterName)},
		"NetworkPolicy my-network-policy-kafka": {Labels: ofNodes()},
		"PodDisruptionBudget my-kafka":          {Labels: ofNodes()},
		"Service my-kafka-brokers":              {Labels: ofNodes()},
		"ServiceAccount my-kafka":               {Labels: ofNodes()},
		"ConfigMap my-trust":                    {Labels: ofOperator()},
		"Secret my-cluster-ca-trusted-certs":    {Labels: ofAuthority(), Annotations: bundle},
		"Secret my-clients-ca-trusted-certs":    {Labels: ofAuthority(), Annotations: bundle},
		"Secret my-cluster-operator-certs":      {Labels: ofOperator(), Annotations: issued},
		"Service my-kafka-bootstrap":            {Labels: ofNodes("strimzi.io/discovery", "true"), Annotations: annotated("strimzi.io/discovery", kubetest.Any)},
		"StrimziPodSet my-dual": {Labels: pooled, Annotations: annotated(
			"keyturn.dev/nodes", kubetest.Any, "strimzi.io/kafka-version", "4.3.1", "strimzi.io/storage", `{"type":"ephemeral"}`)},
	}
	for id := range nodes {
		pod := fmt.Sprintf("my-dual-%d", id)
		rows["ConfigMap "+pod] = kubetest.Marks{Labels: pooled}
		rows["Secret "+pod] = kubetest.Marks{Labels: ofNodes(), Annotations: with(issued, "strimzi.io/clients-ca-cert-generation", "0")}
		rows["Pod "+pod] = kubetest.Marks{
			Labels: with(pooled, "strimzi.io/pod-name", pod, "strimzi.io/controller", "strimzipodset", "strimzi.io/controller-name", "my-dual",
				"strimzi.io/broker-role", "true", "strimzi.io/controller-role", "true"),
			Annotations: annotated("strimzi.io/cluster-ca-cert-generation", "0", "strimzi.io/cluster-ca-key-generation", "0", "strimzi.io/clients-ca-cert-generation", "0",
				"strimzi.io/server-cert-hash", kubetest.Any, "strimzi.io/kafka-version", "4.3.1", "strimzi.io/configuration-hash", kubetest.Any,
				"strimzi.io/resource-revision", kubetest.Any, "strimzi.io/revision", kubetest.Any, "keyturn.dev/pin", kubetest.Any),
		}
	}
	return rows
}

// ownCA are the Secrets of a CA whose key is the operator's.
func ownCA(name string) map[string]kubetest.Marks {
	return map[string]kubetest.Marks{
		"Secret " + name:           {Labels: ofAuthority(), Annotations: annotated(keyGeneration()...)},
		"Secret " + name + "-cert": {Labels: ofAuthority(), Annotations: annotated(certGeneration()...)},
	}
}

// issuersCA are those of a CA of an issuer, with the Secret of the user that they were copied from.
func issuersCA(name, bundle string) map[string]kubetest.Marks {
	return map[string]kubetest.Marks{"Secret " + name + "-cert": {Labels: ofAuthority(), Annotations: copied()}, "Secret " + bundle: {}}
}

// issuersSecrets are those that the issuer writes. The one of this world puts no labels on them.
func issuersSecrets(nodes int) map[string]kubetest.Marks {
	rows := map[string]kubetest.Marks{"Secret my-cluster-operator-certs-cm": {}}
	for id := range nodes {
		rows[fmt.Sprintf("Secret my-dual-%d-cm", id)] = kubetest.Marks{}
	}
	return rows
}

// besideMarks are those of a user operator beside the nodes.
func besideMarks() map[string]kubetest.Marks {
	rows := map[string]kubetest.Marks{}
	for kind := range entityObjects() {
		rows[kind+" "+entityOperatorName] = kubetest.Marks{Labels: ofEntityOperator()}
	}
	rows["Deployment "+entityOperatorName] = kubetest.Marks{Labels: ofEntityOperator(), Annotations: annotated("keyturn.dev/pin", kubetest.Any)}
	rows["Secret my-entity-user-operator-certs"] = kubetest.Marks{
		Labels: ofEntityOperator(), Annotations: annotated("strimzi.io/cluster-ca-cert-generation", "0"),
	}
	rows["Pod "+entityOperatorName+"-1"] = kubetest.Marks{Labels: ofEntityOperator(), Annotations: annotated("keyturn.dev/pin", kubetest.Any, addressAnnotation, kubetest.Any,
		"strimzi.io/cluster-ca-cert-generation", "0", "strimzi.io/cluster-ca-key-generation", "0", "strimzi.io/server-cert-hash", kubetest.Any)}
	return rows
}

func together(tables ...map[string]kubetest.Marks) map[string]kubetest.Marks {
	all := map[string]kubetest.Marks{}
	for _, rows := range tables {
		maps.Copy(all, rows)
	}
	return all
}

func TestEachObjectHasTheLabelsAndAnnotationsOfItsKind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cluster func(t *testing.T) *world
		rows    map[string]kubetest.Marks
	}{
		"a cluster with CAs of its own and a user operator": {
			cluster: besideUsers,
			rows:    together(nodeMarks(2), ownCA("my-cluster-ca"), ownCA("my-clients-ca"), besideMarks()),
		},
		"a cluster CA of an issuer": {
			cluster: func(t *testing.T) *world { t.Helper(); w, _ := outsideCluster(t); return w },
			rows:    together(nodeMarks(3, "strimzi.io/server-cert-hash", kubetest.Any), issuersCA("my-cluster-ca", bundleSecret), ownCA("my-clients-ca"), issuersSecrets(3)),
		},
		"a clients CA of an issuer": {
			cluster: func(t *testing.T) *world { t.Helper(); w, _ := clientsOutside(t); return w },
			rows:    together(nodeMarks(3), ownCA("my-cluster-ca"), issuersCA("my-clients-ca", clientsBundle)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := test.cluster(t)
			kubetest.CheckMarks(t, apiServer, w.namespace, test.rows)
		})
	}
}

func TestWhatAnIssuerIsAskedForHasTheLabelsOfItsComponent(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	want := map[string]map[string]string{"my-cluster-operator-certs": ofOperator()}
	for id := range 3 {
		want[fmt.Sprintf("my-dual-%d", id)] = ofNodes()
	}
	if diff := cmp.Diff(want, w.elsewhere.labels); diff != "" {
		t.Errorf("labels differ (-want +got):\n%s", diff)
	}
}

// Kubelet and operator read what the set describes: a pod that is created again has the same numbers.
func TestAPodItsDescriptionAndItsSecretNameOneCertificate(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	var set podsetv1.StrimziPodSet
	w.get("my-dual", &set)
	for _, described := range set.Spec.Pods {
		var pod, running corev1.Pod
		if err := json.Unmarshal(described.Raw, &pod); err != nil {
			t.Fatal(err)
		}
		w.get(pod.Name, &running)
		for _, key := range []string{"strimzi.io/server-cert-hash", "strimzi.io/cluster-ca-cert-generation", "strimzi.io/clients-ca-cert-generation"} {
			want := w.secret(pod.Name).Annotations[key]
			if is, shall := running.Annotations[key], pod.Annotations[key]; want == "" || is != want || shall != want {
				t.Errorf("%s is %q on pod %s, %q in its description and %q on its Secret", key, is, pod.Name, shall, want)
			}
		}
	}
}
