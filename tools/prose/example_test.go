package prose

import (
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	exampleFile      = "examples/kafka-dual-role.yaml"
	exampleCluster   = "my-cluster"
	examplePool      = "dual-role"
	exampleNamespace = "kafka"
)

// yamlBlock finds the YAML of a page, in lists as well: its indentation and its text.
var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)\n *```")

// manifest is what the example fixes. A fragment has no kind.
type manifest struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Kafka struct {
			Listeners []map[string]any `json:"listeners"`
		} `json:"kafka"`
	} `json:"spec"`
}

// cluster is the Kafka cluster that the manifest is part of.
func (m manifest) cluster() string {
	if m.Kind == "KafkaNodePool" {
		return m.Metadata.Labels["strimzi.io/cluster"]
	}
	return m.Metadata.Name
}

// Each Kafka and KafkaNodePool on a page is that of the example. A fragment changes none of the example's
// listeners, but may add fields to them, and listeners of its own. Files of examples may have other clusters.
func TestPagesAndExamplesHaveOneExampleCluster(t *testing.T) {
	t.Parallel()
	texts := sources(t)
	var listeners []map[string]any
	for _, m := range manifests(t, exampleFile, texts[exampleFile]) {
		listeners = append(listeners, m.Spec.Kafka.Listeners...)
	}
	if len(listeners) == 0 {
		t.Fatalf("%s has no listeners", exampleFile)
	}
	objects, fragments := 0, 0
	for path, text := range texts {
		for _, m := range manifests(t, path, text) {
			switch {
			case m.Kind == "" && m.Spec.Kafka.Listeners != nil:
				fragments++
				checkFragment(t, path, m.Spec.Kafka.Listeners, listeners)
			case m.Kind != "Kafka" && m.Kind != "KafkaNodePool",
				filepath.Ext(path) == ".yaml" && m.cluster() != exampleCluster:
			default:
				checkObject(t, path, m, listeners)
				objects++
			}
		}
	}
	if objects < 4 || fragments == 0 {
		t.Errorf("only %d objects and %d fragments were found", objects, fragments)
	}
}

func checkObject(t *testing.T, path string, m manifest, want []map[string]any) {
	t.Helper()
	if m.cluster() != exampleCluster {
		t.Errorf("%s: %s %s is of cluster %q, want %s", path, m.Kind, m.Metadata.Name, m.cluster(), exampleCluster)
	}
	if m.Metadata.Namespace != "" && m.Metadata.Namespace != exampleNamespace {
		t.Errorf("%s: %s %s is in namespace %s, want %s", path, m.Kind, m.Metadata.Name, m.Metadata.Namespace, exampleNamespace)
	}
	if m.Kind == "KafkaNodePool" {
		if m.Metadata.Name != examplePool {
			t.Errorf("%s: the pool is called %s, want %s", path, m.Metadata.Name, examplePool)
		}
		return
	}
	if diff := cmp.Diff(want, m.Spec.Kafka.Listeners); diff != "" {
		t.Errorf("%s: Kafka %s has other listeners than the example (-want +got):\n%s", path, m.Metadata.Name, diff)
	}
}

func checkFragment(t *testing.T, path string, listeners, example []map[string]any) {
	t.Helper()
	for _, listener := range listeners {
		for _, known := range example {
			if listener["name"] != known["name"] && listener["port"] != known["port"] {
				continue
			}
			same := maps.Clone(listener)
			delete(same, "configuration")
			delete(same, "networkPolicyPeers")
			if diff := cmp.Diff(known, same); diff != "" {
				t.Errorf("%s: listener %v differs from that of the example (-want +got):\n%s", path, listener["name"], diff)
			}
		}
	}
}

// sources are the YAML of pages, one document for each block, and the files of examples, by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for file, text := range files(t, root+"/examples", ".yaml") {
		found[strings.TrimPrefix(file, root+"/")] = text
	}
	for page, text := range files(t, root, ".md") {
		var blocks []string
		for _, match := range yamlBlock.FindAllStringSubmatch(text, -1) {
			blocks = append(blocks, strings.ReplaceAll("\n"+match[2], "\n"+match[1], "\n"))
		}
		found[strings.TrimPrefix(page, root+"/")] = strings.Join(blocks, "\n---\n")
	}
	return found
}

// manifests are the documents that are objects or fragments of one; lists are left out.
func manifests(t *testing.T, path, text string) []manifest {
	t.Helper()
	var found []manifest
	for document := range strings.SplitSeq(text, "\n---\n") {
		var content any
		if err := yaml.Unmarshal([]byte(document), &content); err != nil {
			t.Errorf("%s: %v in\n%s", path, err, document)
			continue
		}
		if _, ok := content.(map[string]any); !ok {
			continue
		}
		var m manifest
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Errorf("%s: %v in\n%s", path, err, document)
			continue
		}
		found = append(found, m)
	}
	return found
}
