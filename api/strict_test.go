package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// undeclared returns the paths that strict decoding refuses, as its error names them.
func (a *admission) undeclared(t *testing.T, object map[string]any) []string {
	t.Helper()
	return pruning.PruneWithOptions(clone(t, object), a.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

func TestStrictDecodingNamesAMisspelledField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		crd, base, patch, want string
	}{
		"of the Kafka":                               {kafkas, minimalKafka, `spec: {entityOperater: {}}`, "spec.entityOperater"},
		"of a listener":                              {kafkas, minimalKafka, `spec: {kafka: {listeners: [{name: a, port: 9092, type: internal, tls: true, authentification: {type: tls}}]}}`, "spec.kafka.listeners[0].authentification"},
		"of an authority":                            {kafkas, minimalKafka, `spec: {clusterCa: {renewalDay: 3}}`, "spec.clusterCa.renewalDay"},
		"of an earlier proposal, the issuer":         {kafkas, minimalKafka, `spec: {clusterCa: {certManagerIssuerRef: {name: my-issuer}}}`, "spec.clusterCa.certManagerIssuerRef"},
		"of an earlier proposal, the certificate":    {kafkas, minimalKafka, `spec: {clientsCa: {publicCert: {secretName: my-ca, certificate: ca.crt}}}`, "spec.clientsCa.publicCert"},
		"of an earlier proposal, the type of issuer": {kafkas, minimalKafka, `spec: {clusterCa: {certificateIssuer: {type: strimzi.io}}}`, "spec.clusterCa.certificateIssuer"},
		"of an issuer":                               {kafkas, minimalKafka, `spec: {clusterCa: {certManager: {issuerRef: {name: my-issuer, namespace: a}}}}`, "spec.clusterCa.certManager.issuerRef.namespace"},
		"of the authorization":                       {kafkas, minimalKafka, `spec: {kafka: {authorization: {type: simple, superusers: [a]}}}`, "spec.kafka.authorization.superusers"},
		"of the options of the JVM":                  {kafkas, minimalKafka, `spec: {kafka: {jvmOptions: {Xmx: 1g}}}`, "spec.kafka.jvmOptions.Xmx"},
		"of a part without effect":                   {kafkas, minimalKafka, `spec: {entityOperator: {topicOperator: {watchNamespace: a}}}`, "spec.entityOperator.topicOperator.watchNamespace"},
		"deep in a list without effect":              {kafkas, minimalKafka, `spec: {kafka: {template: {pod: {tolerations: [{keys: a}]}}}}`, "spec.kafka.template.pod.tolerations[0].keys"},
		"of a toleration of the operators":           {kafkas, minimalKafka, `spec: {entityOperator: {template: {pod: {tolerations: [{keys: a}]}}}}`, "spec.entityOperator.template.pod.tolerations[0].keys"},
		"of a pool":                                  {kafkaNodePools, minimalNodePool, `spec: {replica: 3}`, "spec.replica"},
		"of a user":                                  {kafkaUsers, minimalUser, `spec: {authentification: {type: tls}}`, "spec.authentification"},
		"of a topic":                                 {kafkaTopics, minimalTopic, `spec: {partition: 3}`, "spec.partition"},
		"of storage":                                 {kafkaNodePools, minimalNodePool, `spec: {storage: {deleteclaim: true}}`, "spec.storage.deleteclaim"},
		"of a volume":                                {kafkaNodePools, minimalNodePool, `spec: {storage: {type: jbod, volumes: [{id: 0, type: ephemeral, sizelimit: 1Gi}]}}`, "spec.storage.volumes[0].sizelimit"},
	}
	for _, version := range versions() {
		for name, test := range tests {
			t.Run(version+": "+name, func(t *testing.T) {
				t.Parallel()
				got := newAdmission(t, test.crd, version).undeclared(t, merged(t, test.base, test.patch))
				if diff := cmp.Diff([]string{test.want}, got); diff != "" {
					t.Errorf("strict decoding names other fields (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// listed reads the list of fields by kind.
func listed(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("fields", "strimzi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds map[string]any
	if err := yaml.UnmarshalStrict(data, &kinds); err != nil {
		t.Fatal(err)
	}
	return kinds
}

// written returns an object in which every listed field is present.
func written(t *testing.T, list any) any {
	t.Helper()
	object, isObject := list.(map[string]any)
	if !isObject {
		return map[string]any{"string": "a", "integer": int64(1), "number": 0.5, "boolean": true, "int-or-string": "1", "object": map[string]any{"any": "a"}}[list.(string)]
	}
	values := map[string]any{}
	for name, inner := range object {
		value := written(t, inner)
		if item, isList := strings.CutSuffix(name, "[]"); isList {
			name, value = item, []any{value}
		} else if entry, isMap := strings.CutSuffix(name, "{}"); isMap {
			name, value = entry, map[string]any{"any": value}
		}
		values[name] = value
	}
	return values
}

func TestEveryListedFieldIsKept(t *testing.T) {
	t.Parallel()
	list := listed(t)
	for kind, crd := range map[string]string{"Kafka": kafkas, "KafkaNodePool": kafkaNodePools} {
		for _, version := range versions() {
			t.Run(kind+" in "+version, func(t *testing.T) {
				t.Parallel()
				sent := map[string]any{"spec": written(t, list[kind])}
				if got := newAdmission(t, crd, version).undeclared(t, sent); len(got) != 0 {
					t.Errorf("dropped: %v", got)
				}
			})
		}
	}
}

// declared returns an object in which every property of a schema is present.
func declared(s *schema.Structural) any {
	switch {
	case len(s.Properties) > 0:
		values := map[string]any{}
		for name, property := range s.Properties {
			values[name] = declared(&property)
		}
		return values
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
		return map[string]any{"any": declared(s.AdditionalProperties.Structural)}
	case s.Items != nil:
		return []any{declared(s.Items)}
	default:
		return "a"
	}
}

// The operator tells unknown fields by the list and by its types, the API server by the definitions.
func TestEveryDeclaredFieldIsKnown(t *testing.T) {
	t.Parallel()
	finders := map[string]func(map[string]any) fields.Found{
		kafkas:         fields.InSpec[kafkav1.Kafka],
		kafkaNodePools: fields.InSpec[kafkav1.KafkaNodePool],
	}
	for crd, find := range finders {
		t.Run(crd, func(t *testing.T) {
			t.Parallel()
			spec := newAdmission(t, crd, "v1").structural.Properties["spec"]
			if got := find(map[string]any{"spec": declared(&spec)}).Unknown; len(got) != 0 {
				t.Errorf("declared and not known: %v", got)
			}
		})
	}
}

// kubectl apply keeps what it sent in an annotation, and the API server takes no more than 256 KiB of them.
func TestDefinitionsCanBeApplied(t *testing.T) {
	t.Parallel()
	const limit, spare = 256 << 10, 16 << 10
	for _, name := range definitions() {
		data, err := json.Marshal(definition(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > limit-spare {
			t.Errorf("%s has %d bytes, and kubectl apply can handle %d", name, len(data), limit)
		}
	}
}

func TestTheListHasNoTwoWaysToWriteAField(t *testing.T) {
	t.Parallel()
	var walk func(path string, list any)
	walk = func(path string, list any) {
		object, isObject := list.(map[string]any)
		if !isObject {
			if !slices.Contains([]string{"string", "integer", "number", "boolean", "int-or-string", "object"}, list.(string)) {
				t.Errorf("%s has the type %v, which nobody knows", path, list)
			}
			return
		}
		seen := map[string]bool{}
		for name, inner := range object {
			plain := strings.TrimRight(name, "[]{}")
			if seen[plain] {
				t.Errorf("%s.%s is listed twice", path, plain)
			}
			seen[plain] = true
			walk(path+"."+name, inner)
		}
	}
	for kind, list := range listed(t) {
		walk(kind, list)
	}
}
