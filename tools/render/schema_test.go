package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// chartFile reads a file of the chart.
func chartFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "charts", "keyturn", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func schemaOfValues(t *testing.T) *schema {
	t.Helper()
	var all schema
	if err := json.Unmarshal(chartFile(t, "values.schema.json"), &all); err != nil {
		t.Fatal(err)
	}
	return &all
}

func TestEveryValueIsDescribed(t *testing.T) {
	t.Parallel()
	described := 0
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		for _, p := range s.Properties {
			described++
			if !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s%s is described by %q, which is no sentence", path, p.name, p.Description)
			}
			walk(path+p.name+".", &p.schema)
		}
		if s.Items != nil {
			walk(strings.TrimSuffix(path, ".")+"[].", s.Items)
		}
	}
	walk("", schemaOfValues(t))
	if described < 90 {
		t.Errorf("only %d values are found", described)
	}
}

// A value without a default would not be on the page.
func TestEveryValueHasADefault(t *testing.T) {
	t.Parallel()
	var defaults map[string]any
	if err := yaml.Unmarshal(chartFile(t, "values.yaml"), &defaults); err != nil {
		t.Fatal(err)
	}
	for _, p := range schemaOfValues(t).Properties {
		if _, set := defaults[p.name]; !set && p.name != "global" {
			t.Errorf("values.yaml lacks %s", p.name)
		}
	}
}

func TestDescriptionsBecomeComments(t *testing.T) {
	t.Parallel()
	var all schema
	err := json.Unmarshal([]byte(`{"properties": {
		"b": {"description": "First."},
		"a": {"description": "Second, `+strings.Repeat("long ", 25)+`.", "properties": {"c": {"description": "Third."}}},
		"list": {"description": "Fourth.", "items": {"properties": {"c": {"description": "Not for an entry."}}}}
	}}`), &all)
	if err != nil {
		t.Fatal(err)
	}
	const values = "# old\nb: 1\n\na:\n  # old\n  c:\n    free: 2\n  d: 3\nlist:\n- c: 1\n  c2: 2\n"
	want := commentsOfValues + "# First.\nb: 1\n\n# Second, " + strings.TrimSpace(strings.Repeat("long ", 22)) + "\n# long long long .\na:\n" +
		"  # Third.\n  c:\n    free: 2\n  d: 3\n# Fourth.\nlist:\n- c: 1\n  c2: 2\n"
	once := commented(values, &all)
	if diff := cmp.Diff(want, once); diff != "" {
		t.Errorf("the comments differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(once, commented(once, &all)); diff != "" {
		t.Errorf("the second time changes them (-first +second):\n%s", diff)
	}
}

func TestThePageListsValuesInTheOrderOfTheSchema(t *testing.T) {
	t.Parallel()
	var all schema
	err := json.Unmarshal([]byte(`{"properties": {
		"b": {"title": "Section", "description": "As docs/install.md#rights says of <name>.", "type": "string"},
		"a": {"description": "A group.", "type": "object", "properties": {"c": {"description": "A choice.", "enum": ["", "X"]}}},
		"list": {"description": "A list.", "type": "array", "items": {"properties": {"n": {"description": "A number.", "type": ["integer", "string"], "default": 1}}}},
		"global": {"description": "No default."}
	}}`), &all)
	if err != nil {
		t.Fatal(err)
	}
	got := readme(&all, map[string]any{"b": "x<y", "a": map[string]any{"c": "X"}, "list": []any{}})
	want := aboutValues + "\n## Section\n\n" +
		"- `b` (string, default `\"x<y\"`): As [docs/install.md](../../docs/install.md#rights) says of &lt;name&gt;.\n" +
		"- `a` (object): A group.\n" +
		"- `a.c` (empty or `X`, default `\"X\"`): A choice.\n" +
		"- `list` (list, default `[]`): A list.\n" +
		"- `list[].n` (integer or string, default `1`): A number.\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page differs (-want +got):\n%s", diff)
	}
}
