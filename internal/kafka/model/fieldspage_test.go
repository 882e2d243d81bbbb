package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// The page is made from what decides: the types and the list of fields, the definitions, and the model.
func TestTheFieldsPageIsCurrent(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/fields.md"
	page := fieldsPage(t)
	if *update {
		must(t, os.WriteFile(path, []byte(page), 0o644))
		return
	}
	stands, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(stands), page); diff != "" {
		t.Errorf("the page says something else, run make generate (-page +truth):\n%s", diff)
	}
}

func fieldsPage(t *testing.T) string {
	t.Helper()
	kafka, pool := fields.PathsOf[kafkav1.Kafka](), fields.PathsOf[kafkav1.KafkaNodePool]()
	var page strings.Builder
	page.WriteString(`<!-- Written by make generate. DO NOT EDIT. -->
# Fields

What becomes of each field below ` + "`spec`" + `. There are five ways:

- **acted on**;
- **not done**: a field of Strimzi 1.2, or of its older ` + "`v1beta2`" + `, that asks for something which Keyturn does not do, so that what
  runs differs from the manifest. The API server keeps it with all that is in it, and a ` + "`Warning`" + ` condition with the reason
  ` + "`DiffersFromSpec`" + ` names it;
- **without effect**: such a field that changes nothing anybody could miss, because it belongs to what is not there at all, or to
  how an operator does its work. It is kept, too, and a ` + "`Warning`" + ` condition with the reason ` + "`FieldsWithoutEffect`" + ` names it;
- **refused with a condition**: a value that is stored and that Keyturn cannot do. The Kafka is ` + "`NotReady`" + `, and what runs goes on
  as it is;
- **refused by the API server**: every other field, as [the API](api.md) says.

`)
	writeKind(&page, "Kafka", kafka)
	page.WriteString("### Refused with a condition\n\n| field | values | taken |\n|---|---|---|\n")
	for _, choice := range choices() {
		taken, refused := choice.sorted(t)
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", choice.path, code(refused), code(taken))
	}
	page.WriteString("\n`spec.kafka.config` takes every property of Kafka but [those of the operator](kafka.md#configuration).\n\n")
	writeKind(&page, "KafkaNodePool", pool)
	page.WriteString(`### Fields of storage

Each type of volume has fields of its own. The others are without effect.

| type | acted on | without effect |
|---|---|---|
`)
	for _, kind := range []kafkav1.StorageType{kafkav1.StorageEphemeral, kafkav1.StoragePersistentClaim, kafkav1.StorageJBOD} {
		acted, idle := storageFields(kind)
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", kind, code(acted), code(idle))
	}
	page.WriteString("\nThe volumes of a `jbod` have an `id` and the fields of their own type.\n\n")
	writeUser(&page)
	writeTopic(&page)
	writeManifests(t, &page)
	return page.String()
}

// writeManifests writes what TestManifestsRunOrAreNamed has found.
func writeManifests(t *testing.T, page *strings.Builder) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "apitest", "testdata", "outcomes.yaml"))
	must(t, err)
	var outcomes []struct {
		Manifest string   `json:"manifest"`
		About    string   `json:"about"`
		Fate     string   `json:"fate"`
		Says     []string `json:"says"`
	}
	must(t, yaml.UnmarshalStrict(data, &outcomes))
	page.WriteString(`
## Manifests

What becomes of [manifests as people have them](../internal/kafka/apitest/testdata/manifests), created with strict validation and applied
on a real API server, before all operators. Servers of Kafka are stand-ins there; [versions](kafka.md) are tested apart. The worst of what is said counts:

- **runs**: all that is asked for is done;
- **ignored, named**: fields without effect are named in a condition;
- **not done, named**: what runs differs from the manifest, and a condition names the fields;
- **refused, named**: the API server, or a condition, says what to change. A Kafka that runs goes on as it was.

| manifest | outcome | what is said |
|---|---|---|
`)
	for _, o := range outcomes {
		says := strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.Join(o.Says, "<br>"))
		fmt.Fprintf(page, "| `%s`: %s | %s | %s |\n", o.Manifest, o.About, o.Fate, strings.ReplaceAll(says, "&lt;br>", "<br>"))
	}
}

// writeTopic: the topic operator acts on every field.
func writeTopic(page *strings.Builder) {
	page.WriteString("\n## `KafkaTopic`\n\n### Acted on\n\n")
	writeByParent(page, fields.PathsOf[kafkav1.KafkaTopic]().Acted)
	page.WriteString("A setting of `config` is a text, a number, a boolean or a list, and the API server refuses an object.\n")
}

// writeUser: the user operator acts on every field.
func writeUser(page *strings.Builder) {
	page.WriteString("## `KafkaUser`\n\n### Acted on\n\n")
	writeByParent(page, fields.PathsOf[kafkav1.KafkaUser]().Acted)
	page.WriteString("`operation` of a rule, which `v1` of Strimzi no longer has, is read as `operations` with one entry.\n")
}

func writeKind(page *strings.Builder, kind string, paths fields.Paths) {
	fmt.Fprintf(page, "## `%s`\n\n### Acted on\n\n", kind)
	writeByParent(page, paths.Acted)
	if len(paths.Own) > 0 {
		fmt.Fprintf(page, "Not in Strimzi 1.2: %s.\n\n", code(paths.Own))
	}
	page.WriteString("### Not done\n\n")
	writeByParent(page, paths.Unmet)
	page.WriteString("### Without effect\n\n")
	writeByParent(page, paths.Kept)
}

// writeByParent writes a table of sorted paths with one line for each object.
func writeByParent(page *strings.Builder, paths []string) {
	page.WriteString("| in | fields |\n|---|---|\n")
	inside := map[string][]string{}
	var parents []string
	for _, path := range paths {
		at := strings.LastIndex(path, ".")
		parent := path[:at]
		if _, seen := inside[parent]; !seen {
			parents = append(parents, parent)
		}
		inside[parent] = append(inside[parent], path[at+1:])
	}
	slices.Sort(parents)
	for _, parent := range parents {
		fmt.Fprintf(page, "| `%s` | %s |\n", parent, code(inside[parent]))
	}
	page.WriteString("\n")
}

func code(words []string) string {
	if len(words) == 0 {
		return "–"
	}
	return "`" + strings.Join(words, "` `") + "`"
}

// storageFields tries every field of storage beside a type.
func storageFields(kind kafkav1.StorageType) (acted, idle []string) {
	no := false
	written := map[string]kafkav1.Volume{
		"size":          {Size: "1Gi"},
		"sizeLimit":     {SizeLimit: "1Gi"},
		"class":         {Class: "fast"},
		"selector":      {Selector: map[string]string{"a": "b"}},
		"deleteClaim":   {DeleteClaim: &no},
		"kraftMetadata": {KraftMetadata: kafkav1.KraftMetadataShared},
	}
	for field, volume := range written {
		if len(IdleStorageFields(kafkav1.Storage{Type: kind, Volume: volume})) > 0 {
			idle = append(idle, field)
		} else {
			acted = append(acted, field)
		}
	}
	slices.Sort(acted)
	slices.Sort(idle)
	if kind == kafkav1.StorageJBOD {
		acted = append(acted, "volumes[]")
	}
	return acted, idle
}

// choice is a field with a closed set of values, of which the model may refuse some.
type choice struct {
	path   string
	choose func(in *Input, value string)
}

func choices() []choice {
	return []choice{
		{"spec.kafka.listeners[].type", func(in *Input, value string) {
			in.Kafka.Spec.Kafka.Listeners[0].Type = kafkav1.ListenerType(value)
		}},
		{"spec.kafka.listeners[].authentication.type", func(in *Input, value string) {
			in.Kafka.Spec.Kafka.Listeners[0].Authentication = &kafkav1.ListenerAuthentication{Type: kafkav1.ListenerAuthenticationType(value)}
		}},
		{"spec.kafka.authorization.type", func(in *Input, value string) {
			in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationType(value)}
		}},
	}
}

// sorted tells which values the model takes of those that the API server takes.
func (c choice) sorted(t *testing.T) (taken, refused []string) {
	t.Helper()
	for _, value := range enumeration(t, c.path) {
		in := exampleInput()
		c.choose(&in, value)
		if _, findings := Resolve(in); findings.Err() != nil {
			refused = append(refused, value)
		} else {
			taken = append(taken, value)
		}
	}
	return taken, refused
}

// enumeration reads the values of a field of the Kafka from its definition.
func enumeration(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "kafka.strimzi.io_kafkas.yaml"))
	must(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	must(t, yaml.UnmarshalStrict(data, &crd))
	schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name := range strings.SplitSeq(path, ".") {
		plain, isList := strings.CutSuffix(name, "[]")
		schema = schema.Properties[plain]
		if isList {
			schema = *schema.Items.Schema
		}
	}
	values := make([]string, 0, len(schema.Enum))
	for _, value := range schema.Enum {
		var text string
		must(t, yaml.Unmarshal(value.Raw, &text))
		values = append(values, text)
	}
	if len(values) == 0 {
		t.Fatalf("%s has no values", path)
	}
	return values
}
