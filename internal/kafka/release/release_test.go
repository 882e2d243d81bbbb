package release

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAVersionIsOfItsRelease(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"3.9.0": "3.9", "4.0.0": "4.0", "4.3.1": "4.3", "4.3.99": "4.3", "4.3": "4.3",
		"3.8.1": "", "4.4.0": "", "9.9.9": "", "": "", "4": "", "4.3.1.0": "", "4.x": "", "-4.3": "", "4.3-IV0": "",
	} {
		if got, known := Of(version); got.Minor != want || known != (want != "") {
			t.Errorf("%q is of release %q (%t), want %q", version, got.Minor, known, want)
		}
	}
}

func TestVersionsAreOrderedByTheirNumbers(t *testing.T) {
	t.Parallel()
	versions := []string{"4.10.0", "4.2.10", "3.9.2", "4.2.9", "4.2"}
	slices.SortFunc(versions, Compare)
	if want := []string{"3.9.2", "4.2", "4.2.9", "4.2.10", "4.10.0"}; !slices.Equal(versions, want) {
		t.Errorf("order %v, want %v", versions, want)
	}
}

func TestEveryReleaseHasItsPatchesAndAMetadataVersion(t *testing.T) {
	t.Parallel()
	for _, of := range All() {
		if !slices.IsSortedFunc(of.Patches, Compare) || len(of.Patches) == 0 {
			t.Errorf("the patches of %s are %v", of.Minor, of.Patches)
		}
		for _, patch := range of.Patches {
			if !strings.HasPrefix(patch, of.Minor+".") {
				t.Errorf("%s is a patch of %s", patch, of.Minor)
			}
			if newest := NewestMetadata(patch); !strings.HasPrefix(string(newest), of.Minor+"-IV") {
				t.Errorf("the newest metadata version of %s is %q", patch, newest)
			}
		}
	}
}

// Tests of single servers skip a version that the bed does not have.
func TestTheBedHasTheFirstAndTheLastPatchOfEachRelease(t *testing.T) {
	t.Parallel()
	bed, err := os.ReadFile("../../../bed/internal/versions/versions.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range All() {
		for _, version := range []string{of.Patches[0], of.Patches[len(of.Patches)-1]} {
			if !strings.Contains(string(bed), `"`+version+`"`) {
				t.Errorf("the bed has no Kafka %s", version)
			}
		}
	}
}

func TestMetadataLevels(t *testing.T) {
	t.Parallel()
	for version, level := range map[MetadataVersion]int16{"3.3-IV3": 7, "3.9-IV0": 21, "4.0-IV3": 25, "4.2-IV1": 29, "4.3-IV0": 30} {
		if got := version.Level(); got != level {
			t.Errorf("%s has level %d", version, got)
		}
		if got := MetadataVersionOf(level); got != version {
			t.Errorf("level %d is %s", level, got)
		}
	}
	if version := MetadataVersionOf(31); version != "level 31" {
		t.Errorf("level 31 is %s, which is not for production", version)
	}
	rows := metadataVersions()
	for i := 1; i < len(rows); i++ {
		if rows[i].level != rows[i-1].level+1 {
			t.Errorf("%s does not follow %s", rows[i].version, rows[i-1].version)
		}
	}
}

func TestAReleaseStandsForItsNewestMetadataVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]MetadataVersion{
		"4.3-IV0": "4.3-IV0", "4.2-IV0": "4.2-IV0", "4.2": "4.2-IV1", "4.2.1": "4.2-IV1", "3.9": "3.9-IV0",
		"": "", "4": "", "4.3-IV9": "", "3.2": "", "4.30": "", "4.3.1.0": "", "-IV0": "", "4.3-IV": "",
	} {
		if got, known := ParseMetadataVersion(text); got != want || known != (want != "") {
			t.Errorf("%q is %q (%t), want %q", text, got, known, want)
		}
	}
}

func FuzzParseMetadataVersion(f *testing.F) {
	f.Add("4.3-IV0")
	f.Add("4.3.1")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		if version, known := ParseMetadataVersion(text); known && version.Level() == 0 {
			t.Errorf("%q is %q", text, version)
		}
	})
}

func TestLimitsOfTopicsAreNewWhereNothingThatRunsHasThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version string
		running []string
		want    bool
	}{
		"to the first release that has them":      {"4.0.0", []string{"3.9.2", "3.9.2"}, true},
		"across several releases":                 {"4.3.1", []string{"3.9.0"}, true},
		"to another patch of a release without":   {"3.9.2", []string{"3.9.0"}, false},
		"between releases that have them":         {"4.3.1", []string{"4.0.2"}, false},
		"after the first node runs the version":   {"4.3.1", []string{"3.9.2", "4.3.1", "3.9.2"}, false},
		"from a version that nothing is known of": {"4.3.1", []string{""}, true},
		"to a version that nothing is known of":   {"9.9.9", []string{"3.9.2"}, false},
		"while nothing runs":                      {"4.3.1", nil, false},
	} {
		if got := len(NewTopicLimits(c.version, c.running)) > 0; got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
