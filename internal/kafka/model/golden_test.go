package model

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/publication"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Everything that is rendered for three clusters, reviewed by eye whenever it
// changes: what changes here restarts pods of running clusters.
func TestRenderedObjectsMatchTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dual-role", "separate-roles", "single-ephemeral"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := readInput(t, name)
			if name == "separate-roles" {
				in.Known.MetadataVersion = "4.2-IV1" // an upgrade that is under way
			}
			cluster, findings := Resolve(in)
			if err := findings.Err(); err != nil {
				t.Fatalf("resolving the example: %s", err)
			}
			for file, objects := range render(t, cluster, findings) {
				compareGolden(t, filepath.Join("testdata", name, file+".yaml"), objects)
			}
		})
	}
}

// readInput reads the resources of an example as the API server would give them.
func readInput(t *testing.T, name string) Input {
	t.Helper()
	return readResources(t, filepath.Join("testdata", name, "input.yaml"))
}

func readResources(t *testing.T, path string) Input {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	in := Input{Settings: testSettings(), Known: Known{ClusterID: "MkU3OEVBNTcwNTJENDM2Qg"}}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var meta metav1.TypeMeta
		must(t, yaml.Unmarshal([]byte(document), &meta))
		switch meta.Kind {
		case kafkav1.KindKafka:
			in.Kafka = &kafkav1.Kafka{}
			must(t, yaml.UnmarshalStrict([]byte(document), in.Kafka))
		case kafkav1.KindKafkaNodePool:
			var pool kafkav1.KafkaNodePool
			must(t, yaml.UnmarshalStrict([]byte(document), &pool))
			in.Pools = append(in.Pools, pool)
		}
	}
	return in
}

// The clusters that people start from have nothing wrong with them.
func TestTheExamplesHaveNoFindings(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../examples/*.yaml")
	must(t, err)
	clusters := 0
	for _, path := range paths {
		in := readResources(t, path)
		if in.Kafka == nil {
			continue
		}
		clusters++
		if _, findings := Resolve(in); findings.Err() != nil || len(findings.Warnings) > 0 {
			t.Errorf("%s: %+v", path, findings)
		}
	}
	if clusters < 3 {
		t.Errorf("only %d examples were found", clusters)
	}
}

func testSettings() Settings {
	return Settings{
		Versions: []KafkaVersion{
			{Name: "4.3.1", Image: "keyturn.dev/kafka:4.3.1"},
			{Name: "4.2.1", Image: "keyturn.dev/kafka:4.2.1"},
		},
		AgentImage: "keyturn.dev/keyturn:test",
		PullPolicy: "IfNotPresent",
		NetworkPolicies: &NetworkPolicies{
			OperatorNamespace: "keyturn",
			OperatorLabels:    map[string]string{"app.kubernetes.io/name": "keyturn"},
		},
	}
}

// render returns all objects of a cluster by golden file.
func render(t *testing.T, cluster Cluster, findings Findings) map[string][]any {
	t.Helper()
	bootstrap, err := cluster.BootstrapService()
	must(t, err)
	files := map[string][]any{
		"services": {bootstrap, cluster.BrokersService()},
		"pods":     {},
		"others":   {cluster.ServiceAccount(), cluster.PodDisruptionBudget()},
		"findings": {findings},
	}
	if policy, wanted := cluster.NetworkPolicy(); wanted {
		files["networkpolicy"] = []any{policy}
	}
	for _, node := range cluster.Nodes {
		configMap, err := cluster.ConfigMap(node)
		must(t, err)
		files["configmaps"] = append(files["configmaps"], configMap)
		files["sans"] = append(files["sans"], map[string]any{node.Pod: cluster.SANs(node)})
		for _, claim := range cluster.PersistentVolumeClaims(node) {
			files["claims"] = append(files["claims"], claim)
		}
	}
	for _, pool := range cluster.Pools {
		podSet, err := cluster.PodSet(pool, renderPods(t, cluster, pool))
		must(t, err)
		files["pods"] = append(files["pods"], podSet)
		files["status"] = append(files["status"], cluster.PoolStatus(pool))
	}
	files["status"] = append(files["status"], cluster.ListenerStatuses(map[publication.Role][]string{
		"tls-9093": {"certificate"}, "mtls-9094": {"certificate"}, "scram-9095": {"another certificate"},
	}), cluster.UsedPools())
	return files
}

func renderPods(t *testing.T, cluster Cluster, pool Pool) []runtime.RawExtension {
	t.Helper()
	var pods []runtime.RawExtension
	for _, node := range cluster.PoolNodes(pool.Name) {
		pod, err := cluster.Pod(node, PodAnnotations{
			ClusterCACertGeneration: 1,
			ClientsCACertGeneration: 2,
			ServerCertHash:          "0123456789abcdef0123456789abcdef01234567",
			ListenerCertThumbprints: map[string]string{"scram": "1a2b3c4d"},
			Pin:                     `{"revision":1}`,
		})
		must(t, err)
		described, err := cluster.Describe(pod)
		must(t, err)
		pods = append(pods, described)
	}
	return pods
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func compareGolden(t *testing.T, path string, objects []any) {
	t.Helper()
	var rendered bytes.Buffer
	for i, object := range objects {
		if i > 0 {
			rendered.WriteString("---\n")
		}
		data, err := yaml.Marshal(object)
		must(t, err)
		rendered.Write(data)
	}
	if *update {
		must(t, os.WriteFile(path, rendered.Bytes(), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden file (write it with -update): %s", err)
	}
	if diff := cmp.Diff(string(want), rendered.String()); diff != "" {
		t.Errorf("%s (-golden +rendered):\n%s", path, diff)
	}
}

// The same input gives the same bytes, whatever the order of its maps and lists.
func TestRenderingIsDeterministic(t *testing.T) {
	t.Parallel()
	in := readInput(t, "separate-roles")
	first := renderAll(t, in)
	for range 20 {
		in.Pools[0], in.Pools[1] = in.Pools[1], in.Pools[0]
		if diff := cmp.Diff(first, renderAll(t, in)); diff != "" {
			t.Fatalf("rendered again (-first +again):\n%s", diff)
		}
	}
}

func renderAll(t *testing.T, in Input) string {
	t.Helper()
	cluster, findings := Resolve(in)
	must(t, findings.Err())
	data, err := json.Marshal(render(t, cluster, findings))
	must(t, err)
	return string(data)
}
