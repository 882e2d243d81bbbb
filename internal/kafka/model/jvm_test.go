package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func TestHeap(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		limit   string
		options *kafkav1.JvmOptions
		want    []string
	}{
		"nothing is known":    {"", nil, []string{"-Xms128m", "-Xmx1g"}},
		"half of the limit":   {"2Gi", nil, []string{"-Xms128m", "-Xmx1024m"}},
		"not more than 5 GiB": {"64Gi", nil, []string{"-Xms128m", "-Xmx5120m"}},
		"a tiny limit":        {"64Mi", nil, []string{"-Xms128m", "-Xmx128m"}},
		"both are given":      {"2Gi", &kafkav1.JvmOptions{Xms: "1g", Xmx: "1536m"}, []string{"-Xms1g", "-Xmx1536m"}},
		"the start is given":  {"2Gi", &kafkav1.JvmOptions{Xms: "256m"}, []string{"-Xms256m"}},
		"the end is given":    {"2Gi", &kafkav1.JvmOptions{Xmx: "384m"}, []string{"-Xmx384m"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			in.Pools[0].Spec.Resources = resources(t, "", test.limit)
			in.Pools[0].Spec.JvmOptions = test.options
			cluster, _ := resolved(t, in)
			got := slices.DeleteFunc(cluster.AgentConfig(cluster.Nodes[0]).JavaOptions, func(option string) bool {
				return !strings.HasPrefix(option, "-Xm")
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("heap (-want +got):\n%s", diff)
			}
		})
	}
}

// The user's options come last, because the JVM takes the last of two.
func TestTheUsersJvmOptionsComeLast(t *testing.T) {
	t.Parallel()
	yes := true
	in := exampleInput()
	in.Kafka.Spec.Kafka.JvmOptions = &kafkav1.JvmOptions{
		XX:                   map[string]string{"UseG1GC": "false", "UseZGC": "true", "MaxGCPauseMillis": "5"},
		GcLoggingEnabled:     &yes,
		JavaSystemProperties: []kafkav1.SystemProperty{{Name: "a", Value: "b c"}},
	}
	cluster, _ := resolved(t, in)
	options := cluster.AgentConfig(cluster.Nodes[0]).JavaOptions
	want := []string{"-XX:MaxGCPauseMillis=5", "-XX:-UseG1GC", "-XX:+UseZGC", "-Xlog:gc*:stdout:time", "-Da=b c"}
	if diff := cmp.Diff(want, options[len(options)-len(want):]); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}
