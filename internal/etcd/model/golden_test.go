package model_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func settings() model.Settings {
	return model.Settings{AgentImage: "keyturn:test", PullPolicy: corev1.PullIfNotPresent, ClusterDomain: "cluster.local", OperatorNamespace: "keyturn"}
}

// mirrored are settings of an operator whose images are in a private registry.
func mirrored() model.Settings {
	settings := settings()
	settings.PullSecrets = []corev1.LocalObjectReference{{Name: "registry-credentials"}}
	return settings
}

// read reads an EtcdCluster as the API server would give it.
func read(t *testing.T, path string) *etcdv1beta2.EtcdCluster {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	etcd := &etcdv1beta2.EtcdCluster{}
	if err := yaml.UnmarshalStrict(data, etcd); err != nil {
		t.Fatal(err)
	}
	return etcd
}

// Everything that is rendered for some clusters, reviewed by eye whenever it changes.
func TestRenderedObjectsMatchTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one-ephemeral", "one-insecure", "one-static", "three"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := settings()
			if name == "one-static" {
				of = mirrored()
			}
			cluster, findings := model.Resolve(read(t, filepath.Join("testdata", name, "input.yaml")), of)
			if findings.Problem != nil {
				t.Fatal(findings.Problem.Message)
			}
			compare(t, filepath.Join("testdata", name, "objects.yaml"), render(t, cluster))
		})
	}
}

// render renders a cluster as it is when all members have joined in their order.
func render(t *testing.T, cluster model.Cluster) []byte {
	t.Helper()
	var objects []any
	add := func(more []model.Object) {
		for _, object := range more {
			objects = append(objects, object.Intent)
		}
	}
	add(cluster.Shared())
	add(cluster.Protection(cluster.Size))
	var members []string
	for ordinal := range cluster.Size {
		member := cluster.Names.Member(ordinal)
		members = append(members, member)
		add(cluster.Account(member))
		if !cluster.Ephemeral() {
			objects = append(objects, cluster.Claim(member))
		}
		pod, err := cluster.Pod(member, model.Start{Version: cluster.Version, IsFirst: ordinal == 0, Members: members}, `{"revision":1}`)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, pod)
	}
	var out bytes.Buffer
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the objects differ (-want +got), -update writes them:\n%s", diff)
	}
}
