package model

import (
	"strings"
	"testing"
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
		current         MetadataVersion
		want            MetadataPlan
	}{
		"a new cluster":                  {"4.3.1", "", "", MetadataPlan{"4.3-IV0", "4.3-IV0"}},
		"a new cluster of 4.2":           {"4.2.1", "", "", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"a new cluster held back":        {"4.3.1", "4.2", "", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"a new cluster pinned":           {"4.3.1", "4.2-IV0", "", MetadataPlan{"4.2-IV0", "4.2-IV0"}},
		"an upgrade":                     {"4.3.1", "", "4.2-IV1", MetadataPlan{"4.2-IV1", "4.3-IV0"}},
		"an upgrade held back":           {"4.3.1", "4.2", "4.2-IV1", MetadataPlan{"4.2-IV1", "4.2-IV1"}},
		"an upgrade done":                {"4.3.1", "4.3", "4.3-IV0", MetadataPlan{"4.3-IV0", "4.3-IV0"}},
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

func TestWhenTheMetadataVersionFollows(t *testing.T) {
	t.Parallel()
	plan := MetadataPlan{Format: "4.2-IV1", Desired: "4.3-IV0"}
	cases := map[string]struct {
		current MetadataVersion
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

func TestMetadataLevels(t *testing.T) {
	t.Parallel()
	for version, level := range map[MetadataVersion]int16{"4.2-IV1": 29, "4.3-IV0": 30} {
		if got := version.Level(); got != level {
			t.Errorf("%s has level %d", version, got)
		}
		if got, known := MetadataVersionOf(level); got != version || !known {
			t.Errorf("level %d is %s", level, got)
		}
	}
	if version, known := MetadataVersionOf(31); known {
		t.Errorf("level 31 is %s, which is not for production", version)
	}
	rows := metadataVersions()
	for i := 1; i < len(rows); i++ {
		if rows[i].level != rows[i-1].level+1 {
			t.Errorf("%s does not follow %s", rows[i].version, rows[i-1].version)
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
