package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

func TestTheDefaultIsTheNewestVersion(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Settings.Versions = []KafkaVersion{{"4.3.1", "c"}, {"4.2.10", "b"}, {"4.2.9", "a"}}
	cluster, _ := resolved(t, in)
	if cluster.Version.Name != "4.3.1" || cluster.Version.Image != "c" {
		t.Errorf("version %+v", cluster.Version)
	}
	in.Settings.Versions = in.Settings.Versions[1:]
	cluster, _ = resolved(t, in)
	if cluster.Version.Name != "4.2.10" {
		t.Errorf("version %+v", cluster.Version)
	}
}

func TestAnImageReplacesThatOfTheVersion(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Spec.Kafka.Image = "mine"
	cluster, _ := resolved(t, in)
	if cluster.Version.Name != "4.3.1" || cluster.Version.Image != "mine" {
		t.Errorf("version %+v", cluster.Version)
	}
}

// The binaries roll first; the metadata version follows, and new nodes join with
// the one the cluster has.
func TestMetadataVersions(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		version, wanted string
		current         release.MetadataVersion
		want            MetadataPlan
	}{
		"a new cluster":                  {"4.3.1", "", "", MetadataPlan{"4.3-IV0", "4.3-IV0"}},
		"a new cluster of 4.2":           {"4.2.1", "", "", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"a new cluster held back":        {"4.3.1", "4.2", "", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"a new cluster pinned":           {"4.3.1", "4.2-IV0", "", MetadataPlan{"4.2-IV0", "4.2-IV0"}},
		"an upgrade":                     {"4.3.1", "", "4.2-IV1", MetadataPlan{"4.2-IV1", "4.3-IV0"}},
		"an upgrade held back":           {"4.3.1", "4.2", "4.2-IV1", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"an upgrade done":                {"4.3.1", "4.3", "4.3-IV0", MetadataPlan{"4.3-IV0", "4.3-IV0"}},
		"an upgrade from 3.9":            {"4.3.1", "", "3.9-IV0", MetadataPlan{"3.9-IV0", "4.3-IV0"}},
		"an upgrade across two":          {"4.3.1", "", "4.1-IV1", MetadataPlan{"4.1-IV1", "4.3-IV0"}},
		"back to 4.2 before the finish":  {"4.2.1", "", "4.2-IV1", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"a patch release as the version": {"4.3.1", "4.3.1", "4.2-IV1", MetadataPlan{"4.2-IV1", "4.3-IV0"}},
		"never backwards":                {"4.3.1", "4.2", "4.3-IV0", MetadataPlan{"4.3-IV0", "4.3-IV0"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			in.Kafka.Spec.Kafka.Version, in.Kafka.Spec.Kafka.MetadataVersion = test.version, test.wanted
			in.Known.MetadataVersion = test.current
			cluster, _ := resolved(t, in)
			if cluster.Metadata != test.want {
				t.Errorf("plan %+v", cluster.Metadata)
			}
		})
	}
}

// Kafka forbids one thing alone: servers that do not know the metadata version of the cluster.
func TestAVersionFollowsAnyOtherWhoseMetadataVersionItKnows(t *testing.T) {
	t.Parallel()
	var versions []KafkaVersion
	for _, of := range release.All() {
		versions = append(versions, KafkaVersion{of.Patches[0], "image"}, KafkaVersion{of.Patches[len(of.Patches)-1], "image"})
	}
	for _, from := range versions {
		for _, to := range versions {
			in := exampleInput()
			in.Settings.Versions, in.Kafka.Spec.Kafka.Version = versions, to.Name
			in.Known.MetadataVersion = release.NewestMetadata(from.Name)
			_, findings := Resolve(in)
			isOlder := release.NewestMetadata(to.Name).Level() < in.Known.MetadataVersion.Level()
			isRefused := strings.Contains(fmt.Sprint(findings), "cannot be taken back")
			if isOlder != isRefused {
				t.Errorf("from %s with %s to %s: refused is %t", from.Name, in.Known.MetadataVersion, to.Name, isRefused)
			}
		}
	}
}

func TestWhenTheMetadataVersionFollows(t *testing.T) {
	t.Parallel()
	plan := MetadataPlan{Format: "4.2-IV1", Desired: "4.3-IV0"}
	cases := map[string]struct {
		current release.MetadataVersion
		running []string
		want    bool
	}{
		"all nodes run the new version":   {"4.2-IV1", []string{"4.3.1", "4.3.1"}, true},
		"one node runs the old version":   {"4.2-IV1", []string{"4.3.1", "4.2.1"}, false},
		"one node says nothing":           {"4.2-IV1", []string{"4.3.1", ""}, false},
		"nobody runs":                     {"4.2-IV1", nil, false},
		"it has followed already":         {"4.3-IV0", []string{"4.3.1"}, false},
		"nobody knows what there is":      {"", []string{"4.3.1"}, false},
		"what there is is not in a table": {"5.0-IV0", []string{"4.3.1"}, false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := plan.Due(test.current, test.running); got != test.want {
				t.Errorf("due is %t", got)
			}
		})
	}
}

// What runs below a limit of the next release keeps running until the version is raised.
func TestLimitsAreThoseOfTheVersion(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Settings.Versions = []KafkaVersion{{"3.9.1", "a"}}
	in.Kafka.Spec.Kafka.Config["log.segment.bytes"] = "1024"
	resolved(t, in)
}

func TestServersBeforeKafka4GetTheLogOfTheirLibrary(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"3.9.1": contract.Log4j1Key, "4.0.0": contract.LoggingKey} {
		in := exampleInput()
		in.Settings.Versions = []KafkaVersion{{version, "image"}}
		cluster, _ := resolved(t, in)
		data, err := cluster.NodeConfig(cluster.Nodes[0])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, key := range []string{contract.Log4j1Key, contract.LoggingKey} {
			if strings.Contains(data[key], "INFO") {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("Kafka %s has %v, want %s", version, got, want)
		}
	}
}

func TestClusterIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for first := range 256 {
		id := NewClusterID([16]byte{byte(first), 1, 2, 3})
		if len(id) != 22 || strings.HasPrefix(id, "-") {
			t.Errorf("id %q", id)
		}
		seen[id] = true
	}
	if len(seen) != 128 {
		t.Errorf("%d different ids", len(seen))
	}
}
