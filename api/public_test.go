package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// publicManifest is what is known of a manifest that somebody has published.
type publicManifest struct {
	// From is where it is found.
	From    string `json:"from"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
	// Values are those of the fields that take one of a few, by path.
	Values map[string][]string `json:"values"`
	// Fields are the paths that it has, with [] after lists.
	Fields []string `json:"fields"`
	// Reported are those that nobody acts on.
	Reported []string `json:"reported"`
}

func publicManifests(t *testing.T) []publicManifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "public-manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list []publicManifest
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func (m publicManifest) crd() string {
	return map[string]string{kafkav1.KindKafka: kafkas, kafkav1.KindKafkaNodePool: kafkaNodePools}[m.Kind]
}

// object makes a manifest with the same fields.
func (m publicManifest) object(name string, root *schema.Structural) map[string]any {
	spec := root.Properties["spec"]
	return map[string]any{
		"apiVersion": "kafka.strimzi.io/" + m.Version, "kind": m.Kind,
		"metadata": map[string]any{"name": name, "namespace": "kafka"},
		"spec":     m.value(&spec, "spec", 0),
	}
}

// value makes the value at a path, which is inside of the item of that index of the list above it.
func (m publicManifest) value(s *schema.Structural, path string, index int) any {
	switch {
	case s.Items != nil:
		items := []any{}
		for i := range m.count(path + "[]") {
			items = append(items, m.value(s.Items, path+"[]", i))
		}
		return items
	case len(s.Properties) > 0:
		object := map[string]any{}
		for name, property := range s.Properties {
			if inner := path + "." + name; m.has(inner) {
				object[name] = m.value(&property, inner, index)
			}
		}
		return object
	case s.AdditionalProperties != nil:
		return map[string]any{"memory": "1Gi"}
	case s.Type == "object":
		return map[string]any{"any": map[string]any{"thing": int64(1)}}
	default:
		return m.scalar(s.Type, path, index)
	}
}

// count is how many items the list has in which its fields take all their values.
func (m publicManifest) count(path string) int {
	most := 1
	for field, values := range m.Values {
		if field == path || strings.HasPrefix(field, path+".") {
			most = max(most, len(values))
		}
	}
	return most
}

func (m publicManifest) has(path string) bool {
	return slices.ContainsFunc(m.Fields, func(field string) bool {
		rest, below := strings.CutPrefix(field, path)
		return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (m publicManifest) scalar(kind, path string, index int) any {
	if values := m.Values[path]; len(values) > 0 {
		return values[index%len(values)]
	}
	name := path[strings.LastIndex(path, ".")+1:]
	switch {
	case path == "spec.kafka.listeners[].port":
		return int64(9092 + index)
	case name == "renewalDays":
		return int64(30)
	case name == "validityDays":
		return int64(365)
	case kind == "integer":
		return int64(1 + index)
	case kind == "boolean":
		return true
	case strings.HasPrefix(name, "size"):
		return "1Gi"
	case strings.HasPrefix(name, "-Xm"):
		return "1g"
	default:
		return fmt.Sprintf("a%d", index)
	}
}

// What people have published is taken in the version it is written for, and what nobody acts on is reported.
func TestPublicManifestsAreTakenWithTheWarningsThatAreDue(t *testing.T) {
	t.Parallel()
	index := regexp.MustCompile(`\[\d+\]`)
	for i, manifest := range publicManifests(t) {
		t.Run(manifest.From+" "+manifest.Kind, func(t *testing.T) {
			t.Parallel()
			admission := newAdmission(t, manifest.crd(), manifest.Version)
			sent := manifest.object(fmt.Sprintf("public-%d", i), admission.structural)
			for _, field := range manifest.Fields {
				if !present(sent["spec"], strings.Split(field, ".")[1:]) {
					t.Errorf("the definition has no %s", field)
				}
			}
			if got := admission.undeclared(t, sent); len(got) != 0 {
				t.Errorf("strict decoding refuses %v", got)
			}
			if _, errs := admission.admit(t, sent); len(errs) != 0 {
				t.Errorf("refused: %v", errs)
			}
			found := fields.InSpec[kafkav1.Kafka](sent)
			if manifest.Kind == kafkav1.KindKafkaNodePool {
				found = fields.InSpec[kafkav1.KafkaNodePool](sent)
			}
			reported := slices.Concat(found.WithoutEffect, found.Unmet)
			for i, path := range reported {
				reported[i] = index.ReplaceAllString(path, "[]")
			}
			slices.Sort(reported)
			reported = slices.Compact(reported)
			if diff := cmp.Diff(manifest.Reported, append([]string{}, reported...)); diff != "" || len(found.Unknown) > 0 {
				t.Errorf("reported differs, unknown are %v (-want +got):\n%s", found.Unknown, diff)
			}
		})
	}
}

// present tells whether a value has a field, in the first item of each list on the way.
func present(value any, path []string) bool {
	if list, isList := value.([]any); isList {
		return len(list) > 0 && present(list[0], path)
	}
	if len(path) == 0 {
		return true
	}
	object, isObject := value.(map[string]any)
	inner, found := object[strings.TrimSuffix(path[0], "[]")]
	return isObject && found && present(inner, path[1:])
}
