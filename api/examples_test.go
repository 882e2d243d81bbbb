package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	etcdmodel "github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// Examples are what people start from: the API server takes them, every field has an effect, and the operator
// has nothing to remark.
func TestExamplesAreWithoutFault(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	for _, file := range append(files, filepath.Join("..", "examples", "certmanager", "kafka.yaml")) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			in := model.Input{Settings: model.Settings{
				Versions:   []model.KafkaVersion{{Name: "4.3.1", Image: "kafka:4.3.1"}},
				AgentImage: "keyturn",
			}}
			for _, document := range documents(t, []string{file}) {
				readExample(t, document, &in)
			}
			_, findings := model.Resolve(in)
			for _, finding := range append(findings.Errors, findings.Warnings...) {
				t.Error(finding)
			}
		})
	}
}

// What an application team starts from fits together: the access names the user, the Deployment mounts the Secret of
// the access, and the names are those of the example of a cluster.
func TestExampleOfAnApplicationIsWithoutFault(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "examples", "application", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	var user *kafkav1.KafkaUser
	var access *accessv1alpha1.KafkaAccess
	var deployment *appsv1.Deployment
	for _, document := range documents(t, files) {
		manifest := merged(t, "metadata: {namespace: kafka}", document)
		switch manifest["kind"] {
		case "KafkaUser":
			user = admitted[kafkav1.KafkaUser](t, newAdmission(t, kafkaUsers, "v1"), manifest)
		case "KafkaAccess":
			access = admitted[accessv1alpha1.KafkaAccess](t, newAdmission(t, kafkaAccesses, "v1alpha1"), manifest)
		case "Deployment":
			deployment = strict[appsv1.Deployment](t, manifest)
		default:
			t.Errorf("no test looks at the kind %s", manifest["kind"])
		}
	}
	if user == nil || access == nil || deployment == nil {
		t.Fatal("a KafkaUser, a KafkaAccess or a Deployment is missing")
	}
	if cluster := user.Labels["strimzi.io/cluster"]; cluster != access.Spec.Kafka.Name || cluster != "my-cluster" {
		t.Errorf("the user is one of cluster %q, the access one to %q", cluster, access.Spec.Kafka.Name)
	}
	if access.Spec.User.Name != user.Name {
		t.Errorf("the access is for user %q, not %q", access.Spec.User.Name, user.Name)
	}
	pod := deployment.Spec.Template.Spec
	if mounted := pod.Volumes[0].Secret.SecretName; mounted != access.Name {
		t.Errorf("the Deployment mounts Secret %q, not %q", mounted, access.Name)
	}
	if directory := pod.Containers[0].VolumeMounts[0].MountPath; pod.Containers[0].Command[3] != "--secret-dir="+directory {
		t.Errorf("the client reads %q, the Secret is in %q", pod.Containers[0].Command[3], directory)
	}
}

func TestExampleOfATopicIsWithoutFault(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t, []string{filepath.Join("..", "examples", "topics", "topic.yaml")}) {
		topic := admitted[kafkav1.KafkaTopic](t, newAdmission(t, kafkaTopics, "v1"), merged(t, "metadata: {namespace: kafka}", document))
		if cluster := topic.Labels["strimzi.io/cluster"]; cluster != "my-cluster" {
			t.Errorf("the topic is one of cluster %q", cluster)
		}
	}
}

// The issuer of the example is the one that the Kafka names, it signs with the example's CA, and nodes are not pointed to
// the Secret with the key of that CA.
func TestExampleOfCertManagerIsWithoutFault(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "examples", "certmanager")
	var in model.Input
	for _, document := range documents(t, []string{filepath.Join(folder, "kafka.yaml")}) {
		readExample(t, document, &in)
	}
	issuer, caCert, uses := model.CertManagerIssuer(in.Kafka.Spec.ClusterCa)
	if !uses {
		t.Fatal("the cluster CA is not of cert-manager")
	}
	manifests := map[string]map[string]any{}
	for _, document := range documents(t, []string{filepath.Join(folder, "issuer.yaml")}) {
		manifest := object(t, document)
		name, _, _ := unstructured.NestedString(manifest, "metadata", "name")
		manifests[manifest["kind"].(string)+" "+name] = manifest
	}
	text := func(of string, path ...string) string {
		found, _, err := unstructured.NestedString(manifests[of], path...)
		if err != nil || found == "" {
			t.Errorf("%s has no %s: %v", of, strings.Join(path, "."), err)
		}
		return found
	}
	secret := text(issuer.Kind+" "+issuer.Name, "spec", "ca", "secretName")
	if made := text("Certificate "+secret, "spec", "secretName"); made != secret {
		t.Errorf("the issuer signs with Secret %s, the example's CA is in %s", secret, made)
	}
	if _, exists := manifests["Issuer "+text("Certificate "+secret, "spec", "issuerRef", "name")]; !exists {
		t.Errorf("nothing issues the CA: there are %v", slices.Collect(maps.Keys(manifests)))
	}
	if caCert.Secret == secret {
		t.Errorf("caCert names Secret %s, which holds the key of the CA", secret)
	}
	for _, file := range []string{"issuer.yaml", filepath.Join("..", "..", "docs", "cert-manager.md")} {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if create := "kubectl create secret generic " + caCert.Secret + " --namespace kafka --from-file=" + caCert.Key; !strings.Contains(string(data), create) {
			t.Errorf("%s does not say how to make the Secret of caCert: %s", file, create)
		}
	}
}

func TestExamplesOfEtcdAreWithoutFault(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "examples", "etcd", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	for _, document := range documents(t, files) {
		manifest := merged(t, "metadata: {namespace: etcd}", document)
		if manifest["kind"] != etcdv1beta2.KindEtcdCluster {
			continue
		}
		cluster := admitted[etcdv1beta2.EtcdCluster](t, newAdmission(t, etcdClusters, "v1beta2"), manifest)
		if _, findings := etcdmodel.Resolve(cluster, etcdmodel.Settings{}); findings.Problem != nil || len(findings.Ignored) > 0 {
			t.Errorf("the operator remarks %+v, %v", findings.Problem, findings.Ignored)
		}
	}
}

func TestTheExampleOfABackupIsWithoutFault(t *testing.T) {
	t.Parallel()
	claims := map[string]bool{}
	for _, document := range documents(t, []string{filepath.Join("..", "examples", "etcd", "backup.yaml")}) {
		manifest := merged(t, "metadata: {namespace: etcd}", document)
		if manifest["kind"] == "PersistentVolumeClaim" {
			claims[strict[corev1.PersistentVolumeClaim](t, manifest).Name] = true
			continue
		}
		backup := admitted[etcdv1beta2.EtcdBackup](t, newAdmission(t, etcdBackups, "v1beta2"), manifest)
		if problem := (etcdmodel.Backup{EtcdBackup: backup}).Check(); problem != nil || !claims[backup.Spec.Volume.ClaimName] {
			t.Errorf("the operator remarks %v, and there are claims %v", problem, claims)
		}
	}
}

// documents returns the YAML documents of all files.
func documents(t *testing.T, files []string) []string {
	t.Helper()
	var all []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Split(string(data), "\n---\n")...)
	}
	return all
}

func readExample(t *testing.T, document string, in *model.Input) {
	t.Helper()
	manifest := merged(t, "metadata: {namespace: kafka}", document)
	switch manifest["kind"] {
	case kafkav1.KindKafka:
		in.Kafka = admitted[kafkav1.Kafka](t, newAdmission(t, kafkas, "v1"), manifest)
	case kafkav1.KindKafkaNodePool:
		in.Pools = append(in.Pools, *admitted[kafkav1.KafkaNodePool](t, newAdmission(t, kafkaNodePools, "v1"), manifest))
	}
}

func admitted[T any](t *testing.T, by *admission, manifest map[string]any) *T {
	t.Helper()
	if _, errs := by.admit(t, manifest); len(errs) != 0 {
		t.Errorf("the API server would refuse it: %v", errs)
	}
	if diff := cmp.Diff(fields.Found{}, fields.InSpec[T](manifest)); diff != "" {
		t.Errorf("fields have no effect (-want +got):\n%s", diff)
	}
	return strict[T](t, manifest)
}

// strict decodes a manifest of which every field is known.
func strict[T any](t *testing.T, manifest map[string]any) *T {
	t.Helper()
	text, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	typed := new(T)
	if err := yaml.UnmarshalStrict(text, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}
