package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

const (
	kafkas         = "kafkas.kafka.strimzi.io"
	kafkaNodePools = "kafkanodepools.kafka.strimzi.io"
	kafkaUsers     = "kafkausers.kafka.strimzi.io"
	kafkaTopics    = "kafkatopics.kafka.strimzi.io"
	podSets        = "strimzipodsets.core.strimzi.io"
	kafkaAccesses  = "kafkaaccesses.access.strimzi.io"
	etcdClusters   = "etcdclusters.etcd.database.coreos.com"
	etcdBackups    = "etcdbackups.etcd.database.coreos.com"
	etcdPKIs       = "etcdpkis.keyturn.dev"
	// proposedAccesses are the KafkaAccesses of Strimzi's proposal 033.
	proposedAccesses = "kafkaaccesses.kafka.strimzi.io"
)

// definitions are those that Keyturn installs.
func definitions() []string {
	return []string{kafkas, kafkaNodePools, kafkaUsers, kafkaTopics, podSets, kafkaAccesses, proposedAccesses, etcdClusters, etcdBackups, etcdPKIs}
}

// versions are those of every definition of Kafka, its users and topics.
func versions() []string { return []string{"v1", "v1beta2"} }

// versionsOf are those that a definition serves, the stored one first.
func versionsOf(name string) []string {
	switch name {
	case kafkaAccesses, etcdPKIs:
		return []string{"v1alpha1"}
	case kafkaUsers, kafkaTopics:
		return append(versions(), "v1beta1", "v1alpha1")
	case proposedAccesses, etcdClusters, etcdBackups:
		return []string{"v1beta2"}
	default:
		return versions()
	}
}

// definition reads the definition with the given name.
func definition(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	plural, group, _ := strings.Cut(name, ".")
	file := filepath.Join("..", "config", "crd", group+"_"+plural+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading the definition of %s, which make generate writes: %v", name, err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatalf("parsing %s: %v", file, err)
	}
	return crd
}

// admission does to a manifest of one version what the API server does before it stores it.
type admission struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// admissions are made once each: the definitions are long.
var (
	admissionsLock sync.Mutex
	admissions     = map[string]*admission{}
)

func newAdmission(t *testing.T, crdName, version string) *admission {
	t.Helper()
	admissionsLock.Lock()
	defer admissionsLock.Unlock()
	key := crdName + " " + version
	if admissions[key] == nil {
		admissions[key] = makeAdmission(t, crdName, version)
	}
	return admissions[key]
}

func makeAdmission(t *testing.T, crdName, version string) *admission {
	t.Helper()
	crd := definition(t, crdName)
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if i < 0 {
		t.Fatalf("%s has no version %s", crdName, version)
	}
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, &internal, nil)
	if err != nil {
		t.Fatalf("converting the schema: %v", err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatalf("the schema is not structural: %v", err)
	}
	openAPI, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatalf("building the validator: %v", err)
	}
	return &admission{structural: structural, openAPI: openAPI, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// admit returns the object as it would be stored, and what the API server would refuse it for.
func (a *admission) admit(t *testing.T, object map[string]any) (map[string]any, []string) {
	t.Helper()
	stored := clone(t, object)
	pruning.Prune(stored, a.structural, true)
	errs := validation.ValidateCustomResource(nil, stored, a.openAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, a.structural, stored)...)
	if len(errs) == 0 {
		// As in the API server, the rules see only objects of the right form.
		errs, _ = a.rules.Validate(t.Context(), nil, a.structural, stored, nil, celconfig.RuntimeCELCostBudget)
	}
	return stored, texts(errs)
}

// texts renders errors without the offending values, which can be whole objects.
func texts(errs field.ErrorList) []string {
	lines := make([]string, 0, len(errs))
	for _, err := range errs {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", err.Field, err.Type, err.Detail))
	}
	slices.Sort(lines)
	return lines
}

// object parses YAML as the API server would: integers and other numbers are different types.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("parsing a manifest: %v", err)
	}
	return decode(t, data)
}

func clone(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, data)
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	value := map[string]any{}
	if err := utiljson.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// merged returns base with a JSON merge patch applied, given as YAML.
func merged(t *testing.T, base, patch string) map[string]any {
	t.Helper()
	result := object(t, base)
	merge(result, object(t, patch))
	return result
}

func merge(target, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		existing, hasMap := target[key].(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap && hasMap:
			merge(existing, inner)
		default:
			target[key] = value
		}
	}
}
