package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
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
	for _, file := range files {
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
		in.Kafka = example[kafkav1.Kafka](t, kafkas, manifest)
	case kafkav1.KindKafkaNodePool:
		in.Pools = append(in.Pools, *example[kafkav1.KafkaNodePool](t, kafkaNodePools, manifest))
	}
}

func example[T any](t *testing.T, crd string, manifest map[string]any) *T {
	t.Helper()
	if _, errs := newAdmission(t, crd, "v1").admit(t, manifest); len(errs) != 0 {
		t.Errorf("the API server would refuse it: %v", errs)
	}
	if diff := cmp.Diff(fields.Found{}, fields.InSpec[T](manifest)); diff != "" {
		t.Errorf("fields have no effect (-want +got):\n%s", diff)
	}
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
