package apitest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1ac "github.com/keyturn/keyturn/api/kafka/v1/applyconfiguration/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/operate"
)

const crds = "../../config/crd"

// shared are the definitions that Strimzi installs, too.
func shared() []string {
	return []string{
		"access.strimzi.io_kafkaaccesses", "core.strimzi.io_strimzipodsets", "kafka.strimzi.io_kafkanodepools", "kafka.strimzi.io_kafkas", "kafka.strimzi.io_kafkatopics", "kafka.strimzi.io_kafkausers",
	}
}

func keyturns(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(crds, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// strimzis is a definition as Strimzi 1.2 has it: one version, no rules, and none of the fields that Keyturn adds. Its
// schemas of the status are compared by hand with each release of Strimzi.
func strimzis(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := keyturns(t, name)
	crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	each(schema, func(s *apiextensionsv1.JSONSchemaProps) { s.XValidations = nil })
	status := schema.Properties["status"]
	each(&status, func(s *apiextensionsv1.JSONSchemaProps) {
		s.XPreserveUnknownFields, s.XListType, s.XListMapKeys = nil, nil, nil
	})
	schema.Properties["status"] = status
	switch name {
	case "kafka.strimzi.io_kafkas":
		drop(schema, "status", "users")
		for _, ca := range []string{"clusterCa", "clientsCa"} {
			for _, field := range []string{"type", "certManager", "keyAlgorithm", "keySize"} {
				drop(schema, "spec", ca, field)
			}
		}
	case "access.strimzi.io_kafkaaccesses":
		drop(schema, "spec", "pkcs12")
		drop(schema, "status", "conditions", "[]", "observedGeneration")
	}
	return crd
}

func drop(schema *apiextensionsv1.JSONSchemaProps, path ...string) {
	switch {
	case len(path) == 1:
		delete(schema.Properties, path[0])
	case path[0] == "[]":
		drop(schema.Items.Schema, path[1:]...)
	default:
		below := schema.Properties[path[0]]
		drop(&below, path[1:]...)
		schema.Properties[path[0]] = below
	}
}

// each changes a schema and all below it.
func each(schema *apiextensionsv1.JSONSchemaProps, change func(*apiextensionsv1.JSONSchemaProps)) {
	change(schema)
	for name := range schema.Properties {
		below := schema.Properties[name]
		each(&below, change)
		schema.Properties[name] = below
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		each(schema.Items.Schema, change)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		each(schema.AdditionalProperties.Schema, change)
	}
}

// cluster is an API server with definitions that are replaced.
type cluster struct {
	t     *testing.T
	admin client.Client
}

func startCluster(t *testing.T, definitions ...*apiextensionsv1.CustomResourceDefinition) cluster {
	t.Helper()
	server := kubetest.Start(t, envtest.CRDInstallOptions{CRDs: definitions})
	return cluster{t, kubetest.Connect(t, server, apiextensionsv1.AddToScheme, kafkav1.AddToScheme, accessv1alpha1.AddToScheme)}
}

// replace writes definitions over those that are there, as kubectl replace does.
func (c cluster) replace(definitions ...*apiextensionsv1.CustomResourceDefinition) {
	c.t.Helper()
	for _, wanted := range definitions {
		stored := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.admin.Get(c.t.Context(), client.ObjectKeyFromObject(wanted), stored); err != nil {
			c.t.Fatal(err)
		}
		wanted.ResourceVersion = stored.ResourceVersion
		if err := c.admin.Update(c.t.Context(), wanted); err != nil {
			c.t.Fatal(err)
		}
	}
}

// typeOf is what is shown of spec.clusterCa.type.
func (c cluster) typeOf(kafka string) string {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kafkav1.GroupVersion.WithKind("Kafka"))
	if err := c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: "default", Name: kafka}, object); err != nil {
		c.t.Fatal(err)
	}
	shown, _, _ := unstructured.NestedString(object.Object, "spec", "clusterCa", "type")
	return shown
}

// awaits asks until the API server serves what was written: it takes up a definition a moment later.
func (c cluster) awaits(what string, isSo func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); !isSo(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

func (c cluster) reports(kafka string, status *kafkav1ac.KafkaStatusApplyConfiguration) error {
	return c.admin.Status().Apply(c.t.Context(), kafkav1ac.Kafka(kafka, "default").WithStatus(status), client.FieldOwner("test"), client.ForceOwnership)
}

func ofIssuer(name string) *kafkav1.Kafka {
	return &kafkav1.Kafka{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{{Name: "tls", Port: 9093, Type: "internal", TLS: true}}}, ClusterCa: &kafkav1.CertificateAuthority{
			GenerateCertificateAuthority: new(false), Type: kafkav1.CertManagerAuthority,
			CertManager: &kafkav1.CertManager{
				IssuerRef: &kafkav1.IssuerReference{Name: "company"}, CACert: &kafkav1.CertSecretSource{SecretName: "company-ca", Certificate: "ca.crt"},
			},
		}},
	}
}

func definitions(t *testing.T, made func(*testing.T, string) *apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range shared() {
		all = append(all, made(t, name))
	}
	return all
}

func TestStrimzisDefinitionsHideFieldsOfKeyturnUntilAnObjectIsWritten(t *testing.T) {
	t.Parallel()
	c := startCluster(t, definitions(t, keyturns)...)
	for _, name := range []string{"written", "unwritten"} {
		if err := c.admin.Create(t.Context(), ofIssuer(name)); err != nil {
			t.Fatal(err)
		}
	}

	c.replace(definitions(t, strimzis)...)
	c.awaits("the type is hidden", func() bool { return c.typeOf("written") == "" && c.typeOf("unwritten") == "" })
	if err := c.reports("written", kafkav1ac.KafkaStatus().WithClusterId("of-written")); err != nil {
		t.Errorf("a status is refused: %v", err)
	}
	if err := c.reports("unwritten", kafkav1ac.KafkaStatus().WithUsers(kafkav1ac.UsersStatus().WithTotal(1))); err == nil || !strings.Contains(err.Error(), "users") {
		t.Errorf("the users in the status: %v", err)
	}

	c.replace(definitions(t, keyturns)...)
	c.awaits("the type of a Kafka without a write is back", func() bool { return c.typeOf("unwritten") == string(kafkav1.CertManagerAuthority) })
	if shown := c.typeOf("written"); shown != "" {
		t.Errorf("after a write the type is %q", shown)
	}
}

func TestAKafkaAccessIsReportedWithStrimzisDefinition(t *testing.T) {
	t.Parallel()
	c := startCluster(t, definitions(t, strimzis)...)
	access := &accessv1alpha1.KafkaAccess{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "my-app"},
		Spec:       accessv1alpha1.KafkaAccessSpec{Kafka: accessv1alpha1.KafkaReference{Name: "my-cluster", Namespace: "kafka"}},
	}
	if err := c.admin.Create(t.Context(), access); err != nil {
		t.Fatal(err)
	}
	seen := &binding.Access{ObjectMeta: access.ObjectMeta, Form: binding.Public(), Spec: access.Spec}
	statuses := operate.NewStatuses(c.admin, "test")

	for _, status := range []accessv1alpha1.KafkaAccessStatus{
		binding.First(seen, time.Now()), binding.Status(seen, binding.Outcome{Listener: "tls"}, time.Now()),
	} {
		own := binding.Own(status)
		if isWritten, err := statuses.Apply(t.Context(), access, &access.Status, &own); err != nil || !isWritten {
			t.Errorf("a status is not written: %v", err)
		}
	}
}
